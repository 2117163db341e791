"""A grouping that raises on one value: the emit is refused as a whole.

The effect is that no tree stays open, and no partial tree is acked.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from kstorm.core.bolt_task import BoltTask
from kstorm.core.key_hash import stable_hash
from kstorm.core.outbox import Outbox
from kstorm.core.spout_task import SpoutTask
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    TupleFrame,
    decode,
    pack_ids,
    unpack_ids,
    unpack_pairs,
)
from kstorm.errors import EmitError
from kstorm.testing import LocalCluster
from kstorm.testing.spouts import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    CustomStreamGrouping,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)


class Picky(CustomStreamGrouping):
    """Sends everything to the first task, but raises on `bad`.

    It chooses the task twice for `twice` and no task for `none`.
    """

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        self.target = target_tasks[0]

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        if values[0] == "bad":
            raise LookupError("no task for it")
        return [self.target] * {"twice": 2, "none": 0}.get(values[0], 1)


class Words(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Plain(Bolt):
    """Calls the test's function with a tuple or a batch."""

    do: Callable[[Any], Any]
    do_batch: Callable[[Any], Any] = staticmethod(lambda batch: NotImplemented)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        self.do(tuple)

    def execute_batch(self, batch: TupleBatch) -> Any:
        return self.do_batch(batch)


class Basic(BasicBolt):
    """Emits its input. With `catches`, it ignores an EmitError."""

    catches = False

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        try:
            collector.emit([tuple[0]])
        except EmitError:
            if not self.catches:
                raise


class BasicBatches(Basic):
    """A `Basic` bolt with batches."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> Any:
        collector.emit_batch([batch["word"]])


def wired(bolt: Bolt | BasicBolt, spout: Spout | None = None) -> Topology:
    """Builds a spout and a bolt with two consumers each. The second consumer has a picky grouping."""
    builder = TopologyBuilder("t")
    builder.set_spout("words", spout or Words())
    builder.set_bolt("bolt", bolt).shuffle_grouping("words")
    builder.set_bolt("watch", BasicSink()).custom_grouping("words", Picky())
    builder.set_bolt("first", BasicSink()).all_grouping("bolt")
    builder.set_bolt("second", BasicSink()).custom_grouping("bolt", Picky())
    return builder.build()


class BasicSink(BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Does nothing."""


class Harness:
    """Runs the bolt's only task, and records its output."""

    def __init__(self, bolt: Bolt | BasicBolt) -> None:
        topology = wired(bolt)
        self.outbox = Outbox(topology)
        self.errors: list[BaseException] = []
        ids = count(1000)
        self.task = BoltTask(
            topology,
            "bolt",
            0,
            bolt,
            self.outbox,
            ids.__next__,
            lambda error, doing: self.errors.append(error),
        )
        context = TopologyContext(topology, "bolt", 0)
        bolt.prepare(
            self.task.config, context, *((self.task.collector,) if isinstance(bolt, Bolt) else ())
        )

    def give(self, *words: str) -> None:
        """Gives a frame of words. The n-th has the root n and the edge 100 + n."""
        roots = range(1, len(words) + 1)
        edges = [100 + root for root in roots]
        packed = pack_ids(list(roots)), pack_ids(edges)
        frame = TupleFrame(
            VERSION,
            "words",
            self.task.task_id - 1,
            "default",
            len(words),
            *packed,
            {},
            [list(words)],
        )
        frame.task = self.task.topology.task_ids("words")[0]
        assert all(step is None for step in self.task.receive(frame))

    def balance(self) -> tuple[list[tuple[str, str]], dict[int, int], set[int]]:
        """Returns the sent words by topic, the XOR per root, and the failed roots.

        The XOR covers the acks and the sent edges, so a tree that is acked yields its first edge.
        """
        sent: list[tuple[str, str]] = []
        left: dict[int, int] = {}
        for send in self.outbox.drain_tuples():
            frame = decode(TupleFrame, send.value)
            sent += [(send.topic, word) for word in frame.columns[0]]
            for root, edge in unpack_pairs(frame.roots, frame.edges):
                left[root] = left.get(root, 0) ^ edge
        failed: set[int] = set()
        for send in self.outbox.drain_acks():
            ack = decode(AckFrame, send.value)
            failed |= set(unpack_ids(ack.failed))
            for root, val in unpack_pairs(ack.roots, ack.vals):
                left[root] = left.get(root, 0) ^ val
        return sent, {root: val for root, val in left.items() if root not in failed}, failed


def test_an_emit_that_a_grouping_refuses_leaves_nothing_behind() -> None:
    """The bolt catches the error and acks.

    The first consumer must not get a part of a completed tree.
    """
    bolt = Plain()
    harness = Harness(bolt)

    def execute(tuple: Tuple) -> None:
        with pytest.raises(
            EmitError, match=r"Picky\.choose_tasks raised LookupError for a tuple of 'bolt'"
        ):
            bolt.collector.emit(["bad"], tuple)
        with pytest.raises(EmitError):
            bolt.collector.emit(["bad"], [tuple, tuple])
        with pytest.raises(EmitError):
            bolt.collector.emit(["bad"])
        bolt.collector.ack(tuple)

    bolt.do = execute
    harness.give("a")
    assert harness.balance() == ([], {1: 101}, set())
    assert harness.task.collector.emitted == 0


def test_a_bolt_that_does_not_catch_it_fails_the_tuple() -> None:
    """The error is reported once."""
    bolt = Plain()
    harness = Harness(bolt)

    def execute(tuple: Tuple) -> None:
        bolt.collector.emit([tuple[0]], tuple)
        bolt.collector.ack(tuple)

    bolt.do = execute
    harness.give("a", "bad", "b")
    assert harness.balance() == (
        [("t.first", "a"), ("t.first", "b"), ("t.second", "a"), ("t.second", "b")],
        {1: 101, 3: 103},
        {2},
    )
    assert [type(error) for error in harness.errors] == [EmitError]
    assert isinstance(harness.errors[0].__cause__, LookupError)


@pytest.mark.parametrize("catches", [False, True])
def test_a_basic_bolts_frame_holds_no_half_of_an_emit(catches: bool) -> None:
    """A refused emit is in no lane when the frame's ids are drawn."""
    bolt = Basic()
    bolt.catches = catches
    harness = Harness(bolt)
    harness.give("a", "bad", "b")
    sent, acked, failed = harness.balance()
    assert sent == [("t.first", "a"), ("t.first", "b"), ("t.second", "a"), ("t.second", "b")]
    assert (acked, failed) == (
        ({1: 101, 2: 102, 3: 103}, set()) if catches else ({1: 101, 3: 103}, {2})
    )


def test_a_basic_bolts_batch_is_taken_apart() -> None:
    """The batch raises and has no effect. One by one, only the bad tuple fails."""
    harness = Harness(BasicBatches())
    harness.give("a", "bad", "b")
    assert harness.balance() == (
        [("t.first", "a"), ("t.first", "b"), ("t.second", "a"), ("t.second", "b")],
        {1: 101, 3: 103},
        {2},
    )


def test_a_batch_that_a_plain_bolt_could_not_emit_is_acked_whole_or_not_at_all() -> None:
    """The bolt catches the error and emits other tuples. The tree has only these."""
    bolt = Plain()
    harness = Harness(bolt)

    def execute(batch: TupleBatch) -> None:
        with pytest.raises(EmitError, match=r"Picky\.choose_tasks raised LookupError"):
            bolt.collector.emit_batch([["a", "bad"]], batch)
        bolt.collector.emit_batch([["c"]], batch, [1])
        bolt.collector.ack_batch(batch)

    bolt.do_batch = execute
    harness.give("a", "bad")
    assert harness.balance() == ([("t.first", "c"), ("t.second", "c")], {1: 101, 2: 102}, set())


def test_a_batch_outside_of_a_batch_is_refused() -> None:
    """Its tuples would be unanchored, and a loss would go unnoticed."""

    class Wrong(Basic):
        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            collector.emit_batch([[tuple[0]]])

    harness = Harness(Wrong())
    harness.give("a")
    assert harness.balance() == ([], {}, {1})
    assert "'bolt' calls emit_batch outside of execute_batch" in str(harness.errors[0])


@pytest.mark.parametrize(
    "words", [["twice"], ["a", "twice", "b", "twice"], ["none", "twice", "none"]]
)
def test_a_grouping_may_choose_a_task_twice_or_none(words: list[str]) -> None:
    """Each copy has its own edge, in a batch too. Otherwise the tree would never be complete."""
    harness = Harness(BasicBatches())
    harness.give(*words)
    sent, acked, failed = harness.balance()
    copies = {"twice": 2, "none": 0}
    expected = sorted(word for word in words for _ in range(copies.get(word, 1)))
    assert sorted(word for topic, word in sent if topic == "t.second") == expected
    assert acked == {root: 100 + root for root in range(1, len(words) + 1)}
    assert failed == set()


def test_a_spouts_emit_and_batch_are_refused_whole() -> None:
    """Nothing is sent or tracked, and the acker receives no init."""
    topology = wired(Basic())
    outbox = Outbox(topology)
    task = SpoutTask(
        topology, "words", 0, Words(), outbox, count(1).__next__, lambda error, doing: None, 0.0
    )
    with pytest.raises(EmitError, match="Picky"):
        task.collector.emit(["bad"], 1)
    with pytest.raises(EmitError, match="Picky"):
        task.collector.emit_batch([["a", "bad"]], [1, 2])
    assert (outbox.drain_tuples(), outbox.drain_acks(), task.in_flight, task.collector.emitted) == (
        [],
        [],
        0,
        0,
    )
    task.collector.emit_batch([["a", "twice", "none"]], [1, 2, 3])
    edges: dict[int, int] = {}
    for send in outbox.drain_tuples():
        frame = decode(TupleFrame, send.value)
        for root, edge in unpack_pairs(frame.roots, frame.edges):
            edges[root] = edges.get(root, 0) ^ edge
    begun = [decode(AckFrame, send.value) for send in outbox.drain_acks()]
    assert {
        root: val for ack in begun for root, val in unpack_pairs(ack.init_roots, ack.init_vals)
    } == edges


def test_a_key_that_is_too_deep_is_named_and_refused() -> None:
    """The error message must not raise while it shows the key."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(EmitError, match=r"cannot group by \[\[\["):
        stable_hash([deep])


@pytest.mark.parametrize("bolt", [Basic(), BasicBatches()], ids=["one by one", "batches"])
def test_in_a_topology_every_message_ends(bolt: BasicBolt) -> None:
    """The neighbours of a message that the bolt cannot emit are still acked."""

    spout = FeederSpout("word")
    topology = TopologyBuilder("t")
    topology.set_spout("words", spout)
    topology.set_bolt("bolt", bolt).shuffle_grouping("words")
    topology.set_bolt("first", BasicSink()).all_grouping("bolt")
    topology.set_bolt("second", BasicSink()).custom_grouping("bolt", Picky())
    words = ["a", "bad", "none", "twice", "b"]
    with LocalCluster(topology.build()) as cluster:
        for number, word in enumerate(words):
            spout.feed([word], number)
        cluster.run_until_idle()
        assert sorted(cluster.acked("words")) == [0, 2, 3, 4]
        assert cluster.failed("words") == [1]
