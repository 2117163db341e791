"""Storm's sample components for tests of wiring: a word spout, two counting bolts, and a grouping
to the first n tasks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from random import Random
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import Natural, Positive, checked
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    CustomStreamGrouping,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
)


class TestWordSpout(Spout):
    """Emits random words in the field `word`, without message ids (Storm's `TestWordSpout`).

    Each task emits `limit` words per run, the same ones every time. With `limit=None`, as in Storm,
    it never ends, so a `LocalCluster` never idles. Unlike Storm's spout, it does not sleep between
    words.
    """

    __test__ = False  # keeps pytest from collecting it as a test
    WORDS = ("nathan", "mike", "jackson", "golda", "bertels")

    @checked()
    def __init__(self, limit: Natural | None = 100) -> None:
        self._limit = limit

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        super().open(config, context, collector)
        random = Random(context.task_id)
        self._words: Iterator[str] = islice(map(random.choice, repeat(self.WORDS)), self._limit)

    def next_tuple(self) -> None:
        for word in self._words:
            self.collector.emit([word])
            return


class TestWordCounter(BasicBolt):
    """Counts the first value of its tuples in memory. Emits `word` and `count` (Storm's
    `TestWordCounter`)."""

    __test__ = False

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Count a tuple, unless it is a tick."""
        if not tuple.is_tick:
            self.counts[tuple[0]] += 1
            collector.emit([tuple[0], self.counts[tuple[0]]])


class TestGlobalCount(Bolt):
    """Counts its tuples in memory and emits `global-count` (Storm's `TestGlobalCount`). Run it as
    one task."""

    __test__ = False

    def __init__(self) -> None:
        self.count = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("global-count")

    def execute(self, tuple: Tuple) -> None:
        """Count a tuple, unless it is a tick."""
        if not tuple.is_tick:
            self.count += 1
            self.collector.emit([self.count], tuple)
        self.collector.ack(tuple)


class NGrouping(CustomStreamGrouping):
    """Sends every tuple to the `n` tasks with the lowest ids (Storm's `NGrouping`)."""

    @checked()
    def __init__(self, n: Positive) -> None:
        self._n = n

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        """Choose the tasks. Raises `TopologyError` if there are fewer than `n`."""
        if not 0 < self._n <= len(target_tasks):
            raise TopologyError(
                f"NGrouping({self._n}) on a bolt of {len(target_tasks)} tasks: give it 1 to "
                f"{len(target_tasks)}"
            )
        self._chosen = sorted(target_tasks)[: self._n]

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        return self._chosen
