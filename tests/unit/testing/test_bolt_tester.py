"""`BoltTester`: a bolt driven by hand."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from kstorm.errors import EmitError, TopologyError
from kstorm.testing import BoltTester
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    FailedException,
    OutputFieldsDeclarer,
    StatefulBolt,
    Tuple,
    TupleBatch,
)
from tests.unit.testing.wordcount import Count, Hold, Split


class Told(Bolt):
    """Performs the action that its tuple names."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("value")
        declarer.declare_stream("side", "value", "more")
        declarer.declare_stream("direct", "value", direct=True)
        declarer.declare_stream("bare")

    def execute(self, tuple: Tuple) -> None:
        getattr(self, tuple["order"])(tuple)

    def anchored(self, tuple: Tuple) -> None:
        self.collector.emit(["x"], tuple)
        self.collector.ack(tuple)

    def unanchored(self, tuple: Tuple) -> None:
        self.collector.emit(["x"])
        self.collector.ack(tuple)

    def forget(self, tuple: Tuple) -> None:
        self.collector.emit(["x"], tuple)

    def fail(self, tuple: Tuple) -> None:
        self.collector.fail(tuple)

    def side(self, tuple: Tuple) -> None:
        self.collector.emit(["x", (1, 2)], tuple, stream="side")
        (consumer,) = self.context.get_component_tasks("consumer")
        self.collector.emit(["y"], tuple, stream="direct", task=consumer)
        self.collector.emit([], tuple, stream="bare")
        self.collector.ack(tuple)

    def late(self, tuple: Tuple) -> None:
        self.collector.ack(tuple)
        self.collector.emit(["x"], tuple)

    def patience(self, tuple: Tuple) -> None:
        self.collector.reset_timeout(tuple)

    def report(self, tuple: Tuple) -> None:
        self.collector.report_error(ValueError("odd"))
        self.collector.ack(tuple)


def test_a_basic_bolt() -> None:
    """Messages are numbered. Emits are anchored to the input, and the input is acked."""
    split = BoltTester(Split(), "sentence")
    assert [split.give(["the cow"]), split.give([""]), split.give(["moon"])] == [0, 1, 2]
    assert split.emitted() == [["the"], ["cow"], ["moon"]]
    assert split.anchors() == [[0], [0], [2]]
    assert (split.acked, split.failed, split.held, split.errors) == ([0, 1, 2], [], [], [])


def test_a_bolt_that_raises() -> None:
    """The message fails. The error is recorded unless it is a `FailedException`."""

    class Refuse(Split):
        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            if not tuple["sentence"]:
                raise FailedException("empty")
            super().execute(tuple, collector)

    split = BoltTester(Refuse(), "sentence")
    split.give(["raise"])
    split.give([""])
    split.give(["fine"])
    assert (split.failed, split.acked) == ([0, 1], [2])
    assert [str(error.error) for error in split.errors] == ["cannot"]


@pytest.mark.parametrize(
    ("order", "outcome", "anchors"),
    [
        ("anchored", "acked", [[0]]),
        ("unanchored", "acked", [[]]),
        ("forget", "held", [[0]]),
        ("fail", "failed", []),
        ("side", "acked", []),
        ("patience", "held", []),
        ("report", "acked", []),
    ],
)
def test_outcomes_of_a_message(order: str, outcome: str, anchors: list[Any]) -> None:
    """The message is acked, failed or held, and the emit is anchored or unanchored."""
    told = BoltTester(Told(), "order")
    told.give([order])
    assert {name: getattr(told, name) for name in ("acked", "failed", "held")} == {
        "acked": [],
        "failed": [],
        "held": [],
        outcome: [0],
    }
    assert told.anchors() == anchors
    assert told.reset == ([0] if order == "patience" else [])
    assert [str(error.error) for error in told.errors] == (["odd"] if order == "report" else [])


def test_emit_after_the_ack_is_refused() -> None:
    """The message is done and would not wait for the tuple."""
    told = BoltTester(Told(), "order")
    told.give(["late"])
    assert (told.acked, told.emitted()) == ([0], [])
    assert isinstance(told.errors[0].error, EmitError)


def test_streams() -> None:
    """Each stream has its own tuples, with the values that a consumer gets.

    Tuples of a direct stream have the consumer's task.
    """
    told = BoltTester(Told(), "order")
    told.give(["side"])
    assert told.emitted("side") == [["x", [1, 2]]]
    assert told.emitted("direct") == [["y"]]
    assert (told.emitted("bare"), told.anchors("bare")) == ([[]], [[0]])
    assert told.emitted() == []
    with pytest.raises(TopologyError, match="the bolt declares no stream 'aside'"):
        told.emitted("aside")


class Pair(Bolt):
    def __init__(self) -> None:
        self.waiting: dict[int, Tuple] = {}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("left", "right")

    def execute(self, tuple: Tuple) -> None:
        other = self.waiting.pop(tuple.root, None)
        if other is None:
            self.waiting[tuple.root] = tuple
            return
        self.collector.emit([other["left"], tuple["right"]], [other, tuple])
        self.collector.ack(other)
        self.collector.ack(tuple)


def test_a_join_of_two_inputs() -> None:
    """Tuples given under one id have one tree, which is done when all of them are."""
    pair = BoltTester(Pair(), inputs={"a": ["left"], ("b", "named"): ["right"]})
    pair.give([1], "a", "m1")
    pair.give([2], "a", "m2")
    assert pair.held == ["m1", "m2"]
    pair.give([3], ("b", "named"), "m2")
    assert (pair.emitted(), pair.anchors()) == ([[2, 3]], [["m2"]])
    assert (pair.acked, pair.held) == (["m2"], ["m1"])
    pair.give([4], ("b", "named"), "m1")
    assert pair.acked == ["m1", "m2"]


class Gather(Hold):
    """Emits one tuple for all held tuples."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("count")

    def get_component_configuration(self) -> dict[str, Any]:
        return {"topology_tick_tuple_freq_secs": 5}

    def execute(self, tuple: Tuple) -> None:
        if tuple.is_tick:
            self.collector.emit([len(self.held)], self.held)
        super().execute(tuple)


def test_ticks() -> None:
    """A bolt that works on ticks emits the given objects, anchored to several messages."""
    gather = BoltTester(Gather(), "x")
    gather.give(["a"])
    gather.give(["b"])
    assert gather.held == [0, 1]
    assert len(gather.bolt.held) == 2
    gather.tick()
    assert (gather.emitted(), gather.anchors(), gather.acked) == ([[2]], [[0, 1]], [0, 1])
    with pytest.raises(
        TopologyError, match="gets no tick tuples: set topology_tick_tuple_freq_secs"
    ):
        BoltTester(Hold(), "x").tick()
    ticked = BoltTester(Hold(), "x", topology_tick_tuple_freq_secs=1)
    ticked.give(["a"])
    ticked.tick()
    assert ticked.acked == [0]


def test_an_async_bolt_with_state() -> None:
    """The tester awaits its coroutines, and its state can be read and written."""
    count = BoltTester(Count(), "word")
    count.bolt.state.put("a", 6)
    count.give(["a"])
    count.give(["b"])
    assert count.emitted() == [["a", 7], ["b", 1]]
    assert dict(count.bolt.state.items()) == {"a": 7, "b": 1}


def test_a_bolt_that_takes_batches() -> None:
    """It gets batches of one tuple."""

    class Batches(BasicBolt):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("twice")

        def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
            collector.emit_batch([[2 * value for value in batch["value"]]])

    batches = BoltTester(Batches(), "value")
    batches.give([4])
    assert (batches.emitted(), batches.anchors(), batches.acked) == ([[8]], [[0]], [0])


def test_settle_waits_for_callbacks() -> None:
    """`settle` records an ack that comes from a callback."""
    hold = BoltTester(Hold(), "x")
    hold.give(["a"])
    hold.bolt.collector.ack(hold.bolt.held[0])
    hold.settle()
    assert hold.acked == [0]


def test_a_tuple_too_large() -> None:
    """Its message fails, and the error names the reason."""
    told = BoltTester(Split(), "sentence")
    told.give(["x" * 800_000])
    told.give(["fine"])
    (error,) = told.errors
    assert (told.failed, told.acked) == ([0], [1])
    assert "on the stream 'default'" in str(error.error)


def test_resources_settings_and_cleanup() -> None:
    """They are those of the bolt, as in a service."""
    cleaned: list[str] = []

    class Asks(Split):
        async def cleanup(self) -> None:
            await asyncio.sleep(0)
            cleaned.append(self.context.resources["name"])

    asks = BoltTester(Asks(), "sentence", resources={"name": "lent"}, topology_debug=True)
    assert asks.bolt.config.topology_debug
    asks.close()
    assert cleaned == ["lent"]


def test_wrong_tuples() -> None:
    """The error for an unknown input lists the bolt's inputs."""
    pair = BoltTester(Pair(), inputs={"a": ["left"], ("b", "named"): ["right"]})
    for source in (None, "c", "b"):
        with pytest.raises(TopologyError, match=r"the bolt's inputs are 'a', \('b', 'named'\)"):
            pair.give([1], source)
    with pytest.raises(TopologyError, match=r"2 values were given for 1 fields \(left\)"):
        pair.give([1, 2], "a")
    for value in (object(), 2**64, "\ud800"):
        with pytest.raises(TypeError, match=r"a tuple of 'a' .* cannot be sent: its field 'left'"):
            pair.give([value], "a")
    assert pair.held == []


def test_numbers_do_not_meet_ids() -> None:
    """The tester skips a number that was given as an id."""
    split = BoltTester(Split(), "sentence")
    split.give(["a"], message_id=1)
    assert [split.give(["b"]), split.give(["c"])] == [2, 3]


class Buffered(StatefulBolt):
    """Gathers counts in memory. A checkpoint stores and publishes them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.steps: list[tuple[str, int]] = []

    def execute(self, tuple: Tuple) -> None:
        self.counts[tuple["word"]] += 1
        self.collector.ack(tuple)

    async def pre_prepare(self, checkpoint_id: int) -> None:
        for word, count in self.counts.items():
            self.state.put(word, self.state.get(word, 0) + count)
        self.counts.clear()
        self.steps.append(("prepare", checkpoint_id))

    def pre_commit(self, checkpoint_id: int) -> None:
        self.steps.append(("commit", checkpoint_id))


def test_a_checkpoint() -> None:
    """The puts of `pre_prepare` are stored, `pre_commit` follows, and the checkpoint ids grow."""
    tester = BoltTester(Buffered(), "word")
    for word in ("cow", "cow", "moon"):
        tester.give([word])
    assert tester.bolt.state.get("cow") is None
    tester.checkpoint()
    assert dict(tester.bolt.state.items()) == {"cow": 2, "moon": 1}
    tester.give(["cow"])
    tester.bolt.state.delete("moon")
    tester.checkpoint()
    assert dict(tester.bolt.state.items()) == {"cow": 3}
    assert tester.bolt.steps == [("prepare", 1), ("commit", 1), ("prepare", 2), ("commit", 2)]


def test_a_checkpoint_of_a_bolt_without_state() -> None:
    """The bolt has nothing to store, so the call is a mistake."""
    with pytest.raises(TopologyError, match="a Split has no checkpoints: make it a StatefulBolt"):
        BoltTester(Split(), "sentence").checkpoint()


def test_a_state_that_cannot_be_stored() -> None:
    """The error comes with the checkpoint at the latest."""
    tester = BoltTester(Buffered(), "word")
    with pytest.raises(TypeError, match="'cow'"):  # noqa: PT012 - `put` may refuse it already
        tester.bolt.state.put("cow", object())
        tester.checkpoint()
