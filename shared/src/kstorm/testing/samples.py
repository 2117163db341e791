"""Storm's sample components, for tests of wiring: words, counts of words, a count of all, a grouping to the first n tasks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from random import Random
from typing import Any

from kstorm.errors import TopologyError
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
    """Emits words drawn by chance in the field `word`, without a message id (Storm's `TestWordSpout`).

    Each task emits `limit` of them in each of its lives, the same ones each time; with `limit=None`, as in Storm, there is
    no end, and a `LocalCluster` never idles. It does not rest between two words.
    """

    __test__ = False  # what pytest is to know of a class of this name
    WORDS = ("nathan", "mike", "jackson", "golda", "bertels")

    def __init__(self, limit: int | None = 100) -> None:
        self._limit = limit

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares `word`."""
        declarer.declare("word")

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Begins to draw."""
        super().open(config, context, collector)
        random = Random(context.task_id)
        self._words: Iterator[str] = islice(map(random.choice, repeat(self.WORDS)), self._limit)

    def next_tuple(self) -> None:
        """Emits the next word, if there is one."""
        for word in self._words:
            self.collector.emit([word])
            return


class TestWordCounter(BasicBolt):
    """Counts the first value of its tuples in memory, and emits `word` and `count` (Storm's `TestWordCounter`)."""

    __test__ = False

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares `word` and `count`."""
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Counts a tuple, unless it is a tick."""
        if not tuple.is_tick:
            self.counts[tuple[0]] += 1
            collector.emit([tuple[0], self.counts[tuple[0]]])


class TestGlobalCount(Bolt):
    """Counts its tuples in memory, and emits `global-count` (Storm's `TestGlobalCount`). Make it one task's work."""

    __test__ = False

    def __init__(self) -> None:
        self.count = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares `global-count`."""
        declarer.declare("global-count")

    def execute(self, tuple: Tuple) -> None:
        """Counts a tuple, unless it is a tick."""
        if not tuple.is_tick:
            self.count += 1
            self.collector.emit([self.count], tuple)
        self.collector.ack(tuple)


class NGrouping(CustomStreamGrouping):
    """Every tuple to the `n` tasks with the lowest ids (Storm's `NGrouping`)."""

    def __init__(self, n: int) -> None:
        self._n = n

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        """Takes the first tasks. Raises `TopologyError` if there are not as many."""
        if not 0 < self._n <= len(target_tasks):
            raise TopologyError(
                f"NGrouping({self._n}) on a bolt of {len(target_tasks)} tasks: give it 1 to {len(target_tasks)}"
            )
        self._chosen = sorted(target_tasks)[: self._n]

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """The same ones for every tuple."""
        return self._chosen
