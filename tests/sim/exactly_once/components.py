"""A spout with positions, and bolts that split, count, join, and raise anywhere in an execution."""

from collections.abc import Mapping
from random import Random
from typing import Any

from kstorm.testing.processes import POSITION
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputCollector,
    OutputFieldsDeclarer,
    Positioned,
    Spout,
    SpoutOutputCollector,
    StatefulBasicBolt,
    TopologyContext,
    Tuple,
    TupleBatch,
)

SOURCE = "source"
PARTS = 2
"""Number of tuples made from one message."""
STREAMS = [f"part{part}" for part in range(PARTS)]
"""One stream per part."""
_RAISE = 0.04


class RandomErrors:
    """Raises at random. Copies of a component share it, so a replay may fare differently."""

    def __init__(self, random: Random, often: float = _RAISE) -> None:
        self._random, self._often = random, often

    def __deepcopy__(self, memo: dict[int, Any]) -> "RandomErrors":
        return self

    def maybe(self) -> None:
        """Raise with the probability `often`."""
        if self._random.random() < self._often:
            raise ValueError("now and then")


class Messages(Positioned, Spout):
    """Emits the messages of a log. Its position is the next index to read."""

    def __init__(self, log: list[list[int]]) -> None:
        self._log = log

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A message's number and its key."""
        declarer.declare("id", "key")

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Nothing is read before the position is known."""
        super().open(config, context, collector)
        self._at: dict[int, int] = {}
        self._mine = range(context.task_index, len(self._log), context.total_tasks)

    def next_tuple(self) -> None:
        """Emit the next message of any partition."""
        for partition in self._mine:
            at = self._at.get(partition)
            if at is None:
                at = self.context.resources[POSITION]((SOURCE, partition))
                if at is None:
                    continue
                at = self._at[partition] = max(at, 0)
            if at < len(self._log[partition]):
                number = self._log[partition][at]
                self._at[partition] = at + 1
                self.collector.emit((number, f"key{number % 4}"), message_id=number)
                return

    def fail(self, message_id: int) -> None:
        """Never called. It does what such spouts do."""
        self.collector.emit((message_id, f"key{message_id % 4}"), message_id=message_id)

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {(SOURCE, partition): at for partition, at in self._at.items()}


class Split(BasicBolt):
    """Makes `PARTS` tuples from each, on separate streams.

    So they are in separate frames, and anything can happen between two frames.
    """

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The message, its key, and the number of the part."""
        for stream in STREAMS:
            declarer.declare_stream(stream, ("id", "key", "part"))

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """May raise before, between and after its emits."""
        for part, stream in enumerate(STREAMS):
            self._trouble.maybe()
            collector.emit((tuple["id"], tuple["key"], part), stream=stream)
        self._trouble.maybe()


class SplitBatches(Split):
    """`Split` for whole batches. It does not raise within one emit of a batch."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        for part, stream in enumerate(STREAMS):
            self._trouble.maybe()
            collector.emit_batch([batch["id"], batch["key"], [part] * len(batch)], stream=stream)
        self._trouble.maybe()


class Count(StatefulBasicBolt):
    """Counts keys, and records the counted tuples in a list that is changed in place."""

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The counted tuple, and its key's count."""
        declarer.declare("id", "key", "part", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """May raise at any point."""
        self._trouble.maybe()
        counted = self.state.get(tuple["key"], [])
        counted.append((tuple["id"], tuple["part"]))
        self._trouble.maybe()
        self.state.put(tuple["key"], counted)
        collector.emit((*tuple.values, len(counted)))
        self._trouble.maybe()


class CountBatches(Count):
    """`Count` for whole batches. Its writes to the state before it raises must be rolled back."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """May raise between any two tuples."""
        counts = []
        for number, key, part in zip(batch["id"], batch["key"], batch["part"], strict=True):
            counted = self.state.get(key, [])
            counted.append((number, part))
            self._trouble.maybe()
            self.state.put(key, counted)
            counts.append(len(counted))
        collector.emit_batch([batch["id"], batch["key"], batch["part"], counts])
        self._trouble.maybe()


class Join(Bolt):
    """Holds a part of a message until the other arrives."""

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A complete message, and each part when it arrives."""
        declarer.declare("id")
        declarer.declare_stream("parts", ("id", "part"))

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(config, context, collector)
        self._held: dict[int, Tuple] = {}

    def execute(self, tuple: Tuple) -> None:
        """May raise before it changes what it holds, and after a complete message is acked."""
        self._trouble.maybe()
        self._join(tuple)
        if tuple["id"] not in self._held:
            self._trouble.maybe()

    def _join(self, tuple: Tuple) -> None:
        self.collector.emit((tuple["id"], tuple["part"]), tuple, stream="parts")
        other = self._held.pop(tuple["id"], None)
        if other is None:
            self._held[tuple["id"]] = tuple
            return
        self.collector.emit((tuple["id"],), [tuple, other])
        self.collector.ack(tuple)
        self.collector.ack(other)


class JoinBatches(Join):
    """`Join` for whole batches, whose tuples it acks and holds individually."""

    def execute_batch(self, batch: TupleBatch) -> None:
        """May raise before it changes what it holds."""
        self._trouble.maybe()
        for tuple in batch.tuples():
            self._join(tuple)


class End(BasicBolt):
    """A sink. Its input topic is what the sink's consumers would read."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None: ...
