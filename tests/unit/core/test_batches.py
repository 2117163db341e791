"""A bolt that processes a frame as a batch has the same effect as one that processes tuples."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.bolt_task import BoltTask
from kstorm.core.outbox import Outbox
from kstorm.core.wire import VERSION, AckFrame, TupleFrame, decode, pack_ids, unpack_ids
from kstorm.errors import EmitError, FailedException
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)


class Words(Bolt):
    """Takes batches, and calls `do` for each one."""

    def __init__(self) -> None:
        self.do: Callable[[TupleBatch], Any] = lambda batch: None
        self.batches: list[TupleBatch] = []
        self.alone: list[str] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "number")
        declarer.declare_stream("to-one", "word", direct=True)

    def execute(self, tuple: Tuple) -> None:
        self.alone.append(tuple["sentence"])
        if tuple["sentence"] == "bad":
            raise FailedException
        self.collector.ack(tuple)

    def execute_batch(self, batch: TupleBatch) -> Any:
        self.batches.append(batch)
        return self.do(batch)


class Harness:
    """Runs a bolt's only task before four tasks by fields grouping and two by shuffle grouping."""

    def __init__(self, bolt: Words | None = None) -> None:
        self.bolt = bolt or Words()
        builder = TopologyBuilder("t", Config(topology_acker_tasks=1))
        builder.set_spout("in", FeederSpout("sentence"))
        builder.set_bolt("words", self.bolt).shuffle_grouping("in")
        builder.set_bolt("by-word", Bolt(), 4).fields_grouping("words", ["word"])
        builder.set_bolt("any", Bolt(), 2).shuffle_grouping("words").direct_grouping(
            "words", "to-one"
        )
        topology = builder.build()
        self.outbox = Outbox(topology)
        self.errors: list[str] = []
        ids = iter(range(1 << 20, 1 << 30))
        self.task = BoltTask(
            topology,
            "words",
            0,
            self.bolt,
            self.outbox,
            ids.__next__,
            lambda error, _: self.errors.append(str(error)),
        )
        self.collector = self.task.collector
        self.bolt.prepare(self.task.config, TopologyContext(topology, "words", 0), self.collector)

    def give(
        self,
        *sentences: str,
        roots: list[int] | None = None,
        more: dict[int, dict[int, int]] | None = None,
    ) -> None:
        """Builds a frame. Edge ids are roots plus 100."""
        roots = list(range(1, len(sentences) + 1)) if roots is None else roots
        edges = pack_ids([root + 100 if root else 0 for root in roots])
        packed = pack_ids(roots) if any(roots) else b""
        frame = TupleFrame(
            VERSION,
            "in",
            1,
            "default",
            len(sentences),
            packed,
            edges if packed else b"",
            more or {},
            [[*sentences]],
        )
        assert all(step is None for step in self.task.receive(frame))

    def sent(self) -> list[tuple[str, int, Any, int, int]]:
        """Returns topic, partition, values, root and edge of the sent tuples."""
        found = []
        for send in self.outbox.drain_tuples():
            frame = decode(TupleFrame, send.value)
            roots = unpack_ids(frame.roots) or (0,) * frame.count
            edges = unpack_ids(frame.edges) or (0,) * frame.count
            for *values, root, edge in zip(*frame.columns, roots, edges, strict=True):
                found.append((send.topic, send.partition, values, root, edge))
        return found

    def acks(self) -> tuple[dict[int, int], set[int]]:
        """Returns the XOR by root, and the failed roots."""
        frames = [decode(AckFrame, send.value) for send in self.outbox.drain_acks()]
        acked = {
            r: v
            for f in frames
            for r, v in zip(unpack_ids(f.roots), unpack_ids(f.vals), strict=True)
        }
        return acked, {root for f in frames for root in unpack_ids(f.failed)}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.sampled_from("abcdefg"), max_size=5)),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_acked_and_emitted_edges_cancel_out(
    sentences: list[tuple[int, list[str]]], shuffled: bool
) -> None:
    """For each tree, the XOR sent to the acker equals the XOR of all received and emitted edges."""
    harness = Harness()

    def split(batch: TupleBatch) -> None:
        pairs = [
            (word, at) for at, sentence in enumerate(batch["sentence"]) for word in sentence.split()
        ]
        if shuffled:
            pairs.reverse()
        columns = [[word for word, _ in pairs], list(range(len(pairs)))]
        harness.collector.emit_batch(columns, batch, [at for _, at in pairs])
        harness.collector.ack_batch(batch)

    harness.bolt.do = split
    harness.give(
        *(" ".join(words) for _, words in sentences), roots=[root for root, _ in sentences]
    )
    sent = harness.sent()
    expected: dict[int, int] = {}
    for root, _ in sentences:
        if root:
            expected[root] = expected.get(root, 0) ^ (root + 100)
    for _, _, _, root, edge in sent:
        if root:
            expected[root] = expected.get(root, 0) ^ edge
    assert harness.acks() == ({root: val for root, val in expected.items() if val}, set())
    words = Counter(word for _, words in sentences for word in words)
    for consumer in ("t.by-word", "t.any"):
        assert Counter(values[0] for topic, _, values, _, _ in sent if topic == consumer) == words
    assert Counter(
        (values[0], root) for topic, _, values, root, _ in sent if topic == "t.any"
    ) == Counter((word, root) for root, words in sentences for word in words)


def test_batch_is_routed_like_its_single_tuples() -> None:
    """A fields grouping finds each key's task. Earlier emits stay before the batch."""
    harness, keys = Harness(), [f"k{number}" for number in range(50)]
    for key in keys:
        harness.collector.emit([key, 0])
    one_by_one = {
        values[0]: at for topic, at, values, _, _ in harness.sent() if topic == "t.by-word"
    }
    harness.collector.emit(["k0", 1])
    placed = harness.collector.emit_batch((keys, [2] * 50))
    harness.collector.emit(["k0", 3])
    sent = harness.sent()
    batched = {values[0]: at for topic, at, values, _, _ in sent if topic == "t.by-word"}
    assert batched == one_by_one
    of_k0 = [
        values[1] for topic, _, values, _, _ in sent if topic == "t.by-word" and values[0] == "k0"
    ]
    assert of_k0 == [1, 2, 3]
    by_shuffle = Counter(at for topic, at, _, _, _ in sent if topic == "t.any")
    assert by_shuffle == {0: 26, 1: 26}
    assert len(placed) == 6


def test_if_a_batch_raises_nothing_has_happened_and_only_the_bad_tuple_fails() -> None:
    """The batch's emits and acks are dropped, and the task executes each tuple separately."""
    harness = Harness()

    def raising(batch: TupleBatch) -> None:
        harness.collector.emit_batch((["lost"], [1]), batch, [0])
        harness.collector.ack_batch(batch)
        raise ValueError("a reason")

    harness.bolt.do = raising
    harness.give("good", "bad", "fine")
    assert harness.bolt.alone == ["good", "bad", "fine"]
    assert harness.errors == ["a reason"]
    assert harness.sent() == []
    assert harness.acks() == ({1: 101, 3: 103}, {2})
    assert (harness.collector.emitted, harness.collector.acked, harness.collector.failed) == (
        0,
        2,
        1,
    )
    assert harness.task.unfinished == 0


def test_a_bolt_may_decline_a_batch() -> None:
    """The bolt returns `NotImplemented`. Tuples of several trees never come in a batch."""
    harness = Harness()
    harness.bolt.do = lambda batch: NotImplemented
    harness.give("a", "b")
    harness.bolt.do = lambda batch: None
    harness.give("c", "d", more={1: {9: 90}})
    assert harness.bolt.alone == ["a", "b", "c", "d"]
    assert len(harness.bolt.batches) == 1
    assert harness.errors == []


def test_a_batch_may_be_acked_or_failed_later_and_once() -> None:
    """This holds even while another batch is executed that then raises."""
    harness = Harness()
    harness.give("a", "b")
    first = harness.bolt.batches[0]
    assert harness.acks() == ({}, set())
    assert harness.task.unfinished == 2

    def acking_the_first(batch: TupleBatch) -> None:
        harness.collector.ack_batch(first)
        raise FailedException

    harness.bolt.do = acking_the_first
    harness.give("c", roots=[7])
    harness.collector.ack_batch(first)
    harness.collector.fail_batch(first)
    assert harness.acks() == ({1: 101, 2: 102, 7: 107}, set())
    harness.bolt.do = lambda batch: None
    harness.give("d", "e", roots=[0, 5])
    harness.collector.fail_batch(harness.bolt.batches[-1])
    assert harness.acks() == ({}, {5})
    assert harness.task.unfinished == 0


@pytest.mark.parametrize(
    ("columns", "how", "says"),
    [
        ([["a"]], {}, "emits 1 values on the stream 'default', which declares 2 fields"),
        ([["a"], [1, 2]], {}, "whose columns have \\[1, 2\\] rows"),
        ([["a"], [1]], {"stream": "nowhere"}, "which it did not declare"),
        ([["a"]], {"stream": "to-one"}, "direct stream 'to-one' without a task"),
        (
            [["a"], [1]],
            {"positions": [2]},
            "with 1 positions: give one position per tuple, from 0 to 1",
        ),
        ([["a"], [1]], {"positions": [0, 1]}, "emits a batch of 1 tuples with 2 positions"),
        (
            [["a"], [1]],
            {},
            (
                "emits a batch of 1 tuples anchored to a batch of 2: give the anchor of each tuple "
                "with positions"
            ),
        ),
    ],
)
def test_invalid_batch_emit_is_refused(
    columns: list[list[Any]], how: dict[str, Any], says: str
) -> None:
    """The error names the component, the stream and the remedy."""
    harness = Harness()
    harness.give("a", "b")
    with pytest.raises(EmitError, match=says):
        harness.collector.emit_batch(columns, harness.bolt.batches[0], **how)
    assert harness.sent() == []


def test_a_batch_cannot_be_an_anchor_once_it_is_finished() -> None:
    """The bolt must emit first, then ack."""
    harness = Harness()
    harness.give("a")
    harness.collector.ack_batch(harness.bolt.batches[0])
    with pytest.raises(EmitError, match="acked or failed already"):
        harness.collector.emit_batch([["x"], [1]], harness.bolt.batches[0])


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for word in tuple["sentence"].split():
            if word == "bad":
                raise FailedException
            collector.emit([word])

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        pairs = [
            (word, at) for at, sentence in enumerate(batch["sentence"]) for word in sentence.split()
        ]
        collector.emit_batch([[word for word, _ in pairs]], [at for _, at in pairs])
        if any(word == "bad" for word, _ in pairs):
            raise FailedException


class Sink(BasicBolt):
    async def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        assert [values[0] for values in batch.rows()] == batch[0] == batch["word"]


@pytest.mark.parametrize("seed", range(10))
def test_a_topology_of_batches_acks_all_but_the_bad(seed: int) -> None:
    """A basic bolt's batch is acked when `execute_batch` has returned, async or not."""
    feeder = FeederSpout("sentence")
    builder = TopologyBuilder("t")
    builder.set_spout("in", feeder)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("in")
    builder.set_bolt("sink", Sink(), 2).fields_grouping("split", ["word"])
    with LocalCluster(builder.build(), seed) as cluster:
        for number in range(30):
            feeder.feed(["a bad c" if number % 10 == 3 else "a b c"], number)
        cluster.run_until_idle()
        assert sorted(cluster.failed("in")) == [3, 13, 23]
        assert len(cluster.acked("in")) == 27
        cluster.advance_time(100)  # late acks of failed trees leave rows, which age
        assert cluster.open_trees == 0


class ToOne(BasicBolt):
    """Emits each word on a shuffled stream, on a direct one, and on one without consumers."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("to-one", "word", direct=True)
        declarer.declare_stream("unheard", "word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word = tuple["sentence"]
        collector.emit([word], "unheard")
        assert len(collector.emit([word])) == 1
        (task,) = collector.emit([word], "to-one", task=3)
        assert task == 3
        if word == "bad":
            raise FailedException


def test_a_basic_bolt_may_emit_on_any_stream() -> None:
    """Edges on direct streams are drawn at once, and the others when the frame is done.

    Acks cover all.
    """
    feeder = FeederSpout("sentence")
    builder = TopologyBuilder("t")
    builder.set_spout("in", feeder)
    builder.set_bolt("middle", ToOne()).shuffle_grouping("in")
    builder.set_bolt("sink", Sink()).shuffle_grouping("middle").direct_grouping("middle", "to-one")
    with LocalCluster(builder.build(), 3) as cluster:
        assert list(cluster.topology.task_ids("sink")) == [3]
        for number in range(20):
            feeder.feed(["bad" if number == 7 else "good"], number if number % 4 else None)
        cluster.run_until_idle()
        assert cluster.failed("in") == [7]
        assert len(cluster.acked("in")) == 14
        assert (
            cluster.emitted("middle", "to-one")
            == cluster.emitted("middle")
            == cluster.emitted("middle", "unheard")
        )
        cluster.advance_time(100)
        assert cluster.open_trees == 0
