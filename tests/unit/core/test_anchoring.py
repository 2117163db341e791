"""The acks, fails and anchor edges that a bolt task sends to the ackers."""

from typing import Any

import pytest

from kstorm.core.exactly_once.located_tuples import LocatedTuple
from kstorm.errors import EmitError
from kstorm.topology import Bolt, Fields, Source, Tuple
from tests.unit.core.bolt_harness import Harness, Outputs, Plain
from tests.unit.core.exact_harness import ExactHarness


def test_an_ack_is_the_edge_and_the_edges_of_the_children(bolt: Plain, harness: Harness) -> None:
    """The ack is the XOR of the tuple's edge and every anchored copy, on any stream and task."""

    def execute(tuple: Tuple) -> None:
        targets = harness.collector.emit(["x"], tuple)
        assert targets == (4, 6)
        harness.collector.emit(["y"], tuple, "errors")
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10))
    sent = harness.sent()
    assert [
        (topic, partition, stream, values, root)
        for topic, partition, stream, values, root, *_ in sent
    ] == [
        ("t.next", 0, "default", ["x"], 7),
        ("t.sink", 0, "default", ["x"], 7),
        ("t.sink", 0, "errors", ["y"], 7),
    ]
    edges = [edge for *_, edge, _ in sent]
    assert sorted(edges) == harness.drawn
    assert harness.outbox.acks == {7: 10 ^ sum(edges)}
    assert harness.collector.emitted == 2


def test_acks_of_one_tree_fold(bolt: Plain, harness: Harness) -> None:
    """The acks of two tuples of a tree in one process are one value."""
    bolt.do = harness.collector.ack
    harness.give(("a", 7, 0b01), ("b", 7, 0b10), ("c", 8, 0b100))
    assert harness.outbox.acks == {7: 0b11, 8: 0b100}


def test_unanchored_emit_has_no_root(bolt: Plain, harness: Harness) -> None:
    """The tuple has no root, and the ack of the input does not wait for it."""

    def execute(tuple: Tuple) -> None:
        harness.collector.emit(["x"])
        harness.collector.emit(["y"], [])
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert {(root, edge) for *_, root, edge, _ in harness.sent()} == {(0, 0)}
    assert harness.outbox.acks == {7: 10}


def test_an_anchor_that_is_not_tracked(bolt: Plain, harness: Harness) -> None:
    """A tuple that is anchored only to an untracked tuple is untracked."""

    def execute(tuple: Tuple) -> None:
        harness.collector.emit(["x"], tuple)
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 0, 0))
    assert [(root, edge) for *_, root, edge, _ in harness.sent()] == [(0, 0), (0, 0)]
    assert harness.outbox.acks == {}
    assert harness.drawn == []


def test_a_second_ack_or_fail_is_ignored(bolt: Plain, harness: Harness) -> None:
    """A tuple is acked or failed once. A second XOR would reopen it."""

    def execute(tuple: Tuple) -> None:
        harness.collector.ack(tuple)
        harness.collector.ack(tuple)
        harness.collector.fail(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert harness.outbox.acks == {7: 10}
    assert harness.outbox.fails == set()
    assert (harness.collector.acked, harness.collector.failed) == (1, 0)


def test_an_ack_after_a_fail_is_ignored(bolt: Plain, harness: Harness) -> None:
    """The first result counts."""

    def execute(tuple: Tuple) -> None:
        harness.collector.fail(tuple)
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert harness.outbox.acks == {}
    assert harness.outbox.fails == {7}


@pytest.mark.parametrize("end", ["ack", "fail"])
def test_emitting_after_the_ack_is_refused(bolt: Plain, harness: Harness, end: str) -> None:
    """The tree would not know the child: emit first, then ack. An unanchored emit is allowed."""

    def execute(tuple: Tuple) -> None:
        getattr(harness.collector, end)(tuple)
        for anchors in (tuple, [tuple]):
            with pytest.raises(
                EmitError, match=r"'bolt' anchors to a tuple of 'words' that was acked.*emit first"
            ):
                harness.collector.emit(["x"], anchors)
        harness.collector.emit(["free"])

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert {(values[0], root) for _, _, _, values, root, *_ in harness.sent()} == {("free", 0)}
    assert harness.errors == []


def test_a_refused_emit_leaves_no_edge_behind(bolt: Plain, harness: Harness) -> None:
    """One of several anchors was acked. The trees of the others must not wait for an unsent tuple."""
    harness.give(("open", 7, 10), ("done", 8, 20))
    still_open, done = bolt.got
    harness.collector.ack(done)
    with pytest.raises(EmitError, match="acked or failed already"):
        harness.collector.emit(["x"], [still_open, done])
    harness.collector.ack(still_open)
    assert harness.outbox.acks == {7: 10, 8: 20}
    assert harness.sent() == []


def test_hold_now_and_ack_later(bolt: Plain, harness: Harness) -> None:
    """A join holds tuples over many frames.

    Their acks contain the edges anchored to them meanwhile.
    """
    harness.give(("a", 7, 10))
    harness.give(("b", 8, 20))
    first, second = bolt.got
    assert harness.outbox.acks == {}
    assert harness.task.unfinished == 2
    harness.collector.emit(["ab"], [first, second], "errors")
    harness.collector.ack(second)
    harness.collector.ack(first)
    (edge_a, edge_b) = harness.drawn
    ((*_, root, edge, more),) = harness.sent()
    assert {root: edge, **more} == {7: edge_a, 8: edge_b}
    assert harness.outbox.acks == {7: 10 ^ edge_a, 8: 20 ^ edge_b}
    assert harness.task.unfinished == 0


def test_a_tuple_of_several_trees(bolt: Plain, harness: Harness) -> None:
    """Its ack and fail reach every tree. Its children have the same edges in each tree."""

    def execute(tuple: Tuple) -> None:
        if tuple[0] == "fail":
            harness.collector.fail(tuple)
            return
        harness.collector.emit(["x"], tuple, "errors")
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10), more={0: {8: 20, 9: 30}})
    (child,) = harness.drawn
    ((*_, root, edge, more),) = harness.sent()
    assert {root: edge, **more} == {7: child, 8: child, 9: child}
    assert harness.outbox.acks == {7: 10 ^ child, 8: 20 ^ child, 9: 30 ^ child}
    harness.give(("b", 0, 0), ("fail", 5, 50), more={1: {6: 60}})
    assert harness.outbox.fails == {5, 6}


def test_anchors_of_one_tree_fold(bolt: Plain, harness: Harness) -> None:
    """After a join of two branches of a tree, the child is one edge: the XOR of one per anchor."""
    harness.give(("left", 7, 10), ("right", 7, 20))
    left, right = bolt.got
    harness.collector.emit(["x"], [left, right], "errors")
    ((*_, root, edge, more),) = harness.sent()
    first, second = harness.drawn
    assert (root, edge, more) == (7, first ^ second, {})
    harness.collector.ack(left)
    harness.collector.ack(right)
    assert harness.outbox.acks == {7: 10 ^ 20 ^ first ^ second}


def test_the_same_anchor_twice(bolt: Plain, harness: Harness) -> None:
    """The tuple has two edges, and the sum is correct, as with Storm's DupAnchorBolt."""
    harness.give(("a", 7, 10))
    (anchor,) = bolt.got
    harness.collector.emit(["x"], [anchor, anchor], "errors")
    ((*_, root, edge, more),) = harness.sent()
    harness.collector.ack(anchor)
    assert (root, more) == (7, {})
    assert edge != 0
    assert harness.outbox.acks == {7: 10 ^ edge}


def test_reset_timeout_names_every_root(bolt: Plain, harness: Harness) -> None:
    """The timeout restarts for all trees of the tuple, and the tuple stays open."""
    harness.give(("a", 7, 10), more={0: {8: 20}})
    harness.collector.reset_timeout(bolt.got[0])
    assert harness.outbox.resets == {7, 8}
    assert not bolt.got[0].finished


@pytest.mark.parametrize("more", [None, {6: 6}])
def test_an_anchor_may_have_no_values(more: Any) -> None:
    """Tuples of a stream without fields are valid anchors."""
    harness = Harness(Plain())
    source = Source("words", "default", 1, Fields())
    harness.collector.emit(["x"], Tuple((), source, 5, 5, more), stream="errors")
    ((*_, root, edge, others),) = harness.sent()
    assert {root, *others} == {5, *(more or {})}
    assert edge != 0
    finished = Tuple((), source, 5, 5, more, finished=True)
    with pytest.raises(EmitError, match="acked or failed already"):
        harness.collector.emit(["x"], finished, stream="errors")


def test_an_anchor_may_have_no_values_exactly_once() -> None:
    class Emits(Outputs, Bolt):
        """Declares a stream."""

    harness = ExactHarness(Emits())
    one = LocatedTuple((), Source("words", "default", 1, Fields()), 5, 5)
    harness.task.collector.emit(["x"], one)
    ((_, root, edge),) = harness.sent()
    assert (root, edge) == (5, one.ack_val)
