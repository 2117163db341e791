"""A spout with positions, and bolts that split, count, join and raise at any point of an execution."""

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
"""Tuples that are made of one message."""
STREAMS = [f"part{part}" for part in range(PARTS)]
"""One for each of them."""
_RAISE = 0.04


class Trouble:
    """Raises now and then. Copies of a component share it, so that a replay of a tuple is not as the first time."""

    def __init__(self, random: Random, often: float = _RAISE) -> None:
        self._random, self._often = random, often

    def __deepcopy__(self, memo: dict[int, Any]) -> "Trouble":
        return self

    def maybe(self) -> None:
        """Raises, `often`."""
        if self._random.random() < self._often:
            raise ValueError("now and then")


class Messages(Positioned, Spout):
    """Emits the messages of a log; its position is where the log is read next."""

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
        """The next message of any partition."""
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
        """Never called; it does what such spouts do."""
        self.collector.emit((message_id, f"key{message_id % 4}"), message_id=message_id)

    def positions(self) -> Mapping[tuple[str, int], int]:
        """See `Positioned.positions`."""
        return {(SOURCE, partition): at for partition, at in self._at.items()}


class Split(BasicBolt):
    """Makes `PARTS` tuples of each, on a stream each: they come in frames of their own, and between two frames anything happens."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The message, its key, and which part of it."""
        for stream in STREAMS:
            declarer.declare_stream(stream, ("id", "key", "part"))

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Raises before, between and behind its emits."""
        for part, stream in enumerate(STREAMS):
            self._trouble.maybe()
            collector.emit((tuple["id"], tuple["key"], part), stream=stream)
        self._trouble.maybe()


class SplitBatches(Split):
    """The same by whole batches, where it does not raise amid one."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """Raises before, between and behind its emits."""
        for part, stream in enumerate(STREAMS):
            self._trouble.maybe()
            collector.emit_batch([batch["id"], batch["key"], [part] * len(batch)], stream=stream)
        self._trouble.maybe()


class Count(StatefulBasicBolt):
    """Counts keys, and keeps the numbers of what it has counted in a list that is changed in place."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What was counted, and as the how many-th of its key."""
        declarer.declare("id", "key", "part", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Raises at any point."""
        self._trouble.maybe()
        counted = self.state.get(tuple["key"], [])
        counted.append((tuple["id"], tuple["part"]))
        self._trouble.maybe()
        self.state.put(tuple["key"], counted)
        collector.emit((*tuple.values, len(counted)))
        self._trouble.maybe()


class CountBatches(Count):
    """The same by whole batches; what one has put into the state before it raises must not stay there."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """Raises between any two tuples."""
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
    """Holds a part of a message until the other comes."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A message that is complete; and each part of it, when it comes."""
        declarer.declare("id")
        declarer.declare_stream("parts", ("id", "part"))

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Nothing is held yet."""
        super().prepare(config, context, collector)
        self._held: dict[int, Tuple] = {}

    def execute(self, tuple: Tuple) -> None:
        """Raises before it has changed what it holds, and when all of a message is acked."""
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
    """The same by whole batches, of which it acks and holds tuples one by one."""

    def execute_batch(self, batch: TupleBatch) -> None:
        """Raises before it has changed what it holds."""
        self._trouble.maybe()
        for tuple in batch.tuples():
            self._join(tuple)


class End(BasicBolt):
    """Reads what a sink's readers read."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Does nothing."""
