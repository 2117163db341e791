"""Trees rebuilt from the records of a small topology."""

import msgspec
import pytest

from kstorm.core.origins import Origin, OriginRun
from kstorm.core.wire import AckFrame, TupleFrame, decode, encode
from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree_reader import TopicRecord
from kstorm.testing import FeederSpout, LocalCluster
from tests.unit.operations.rebuilding import (
    End,
    Forgets,
    HoldsAndSends,
    rebuilt,
    records,
    roots,
    topology,
    trees,
)


def test_complete_tree_is_proven_and_has_every_tuple() -> None:
    """Init and acks cancel out, and each tuple is below its anchor."""
    (tree,) = trees(["the cow jumped"], End())
    assert tree.outcome == "acked"
    assert tree.proof.residual == 0
    assert [ending.kind for ending in tree.endings] == ["acked"]
    (first,) = tree.children()[0]
    assert tree.tuples[first].first.target == "split"
    below = [tree.tuples[edge] for edge in tree.children()[first]]
    assert [(t.first.target, t.first.values, t.exact) for t in below] == [
        ("count", [word], True) for word in ("the", "cow", "jumped")
    ]


def test_each_message_has_its_own_tree() -> None:
    """Tuples in one frame are assigned to their trees."""
    found = trees(["a b", "c", "d e f"], End())
    assert [len(tree.tuples) for tree in found] == [3, 2, 4]
    assert all(tree.proof.closed for tree in found)


@pytest.mark.parametrize("words", [3, 40, 600])
def test_forgotten_tuple_is_found(words: int) -> None:
    """The tree may have any size."""
    (tree,) = trees([" ".join(["moon", *(f"w{n}" for n in range(words))])], Forgets())
    assert tree.outcome == "open"
    waiting = open_edges(tree)
    (edge,) = waiting.unacked
    assert tree.tuples[edge].first.values == ["moon"]
    assert tree.tuples[edge].first.target == "count"


@pytest.mark.parametrize("words", [3, 40, 100])
def test_held_tuple_is_distinguished_from_its_children(words: int) -> None:
    """The tuples that it waits for are acked, and will be announced only with its own ack."""
    sentence = " ".join(["moon", *(f"w{n}" for n in range(words))])
    (tree,) = trees([sentence], HoldsAndSends(), third=True)
    waiting = open_edges(tree)
    assert [tree.tuples[edge].first.values for edge in waiting.unacked] == [["moon"]]
    assert tree.tuples[waiting.unacked[0]].first.target == "count"
    assert (waiting.strange, waiting.twice, waiting.among) == ([], [], ())


def test_parents_are_exact_if_the_frame_has_them() -> None:
    """Otherwise a tuple has several possible parents if a task got several tuples of the tree."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, HoldsAndSends(), third=True)) as cluster:
        feeder.feed(["same same"], 0)
        cluster.run_until_idle()
        found = list(records(cluster))
        (root,) = roots(found)
        tree = rebuilt(cluster.topology, found, root)
        below = [tuple for tuple in tree.tuples.values() if tuple.first.target == "sink"]
        assert [(len(tuple.parents), tuple.exact) for tuple in below] == [(2, False)] * 2
        same = [edge for edge, tuple in tree.tuples.items() if tuple.first.target == "count"]
        said = [
            _saying(record, [same[1], same[0]]) if record.topic == "t.sink" else record
            for record in found
        ]
        exact = [
            t
            for t in rebuilt(cluster.topology, said, root).tuples.values()
            if t.first.target == "sink"
        ]
        assert [(list(tuple.parents), tuple.exact) for tuple in exact] == [
            ([same[1]], True),
            ([same[0]], True),
        ]


def _saying(record: TopicRecord, parents: list[int]) -> TopicRecord:
    frame = decode(TupleFrame, record.value)
    said = {row: [parent] for row, parent in enumerate(parents)}
    return record._replace(value=encode(msgspec.structs.replace(frame, parents=said)))


def test_the_message_of_a_tree_is_known_from_its_init() -> None:
    """The message is known only if the frame contains it."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, End())) as cluster:
        feeder.feed(["a"], 0)
        cluster.run_until_idle()
        found = list(records(cluster))
        (root,) = roots(found)
        assert rebuilt(cluster.topology, found, root).origin is None
        said = [_with_origin(record) if record.topic == "t.__acker" else record for record in found]
        assert rebuilt(cluster.topology, said, root).origin == Origin("lines", 3, 10482, 2)


def _with_origin(record: TopicRecord) -> TopicRecord:
    frame = decode(AckFrame, record.value)
    if not frame.init_roots:
        return record
    return record._replace(
        value=encode(msgspec.structs.replace(frame, origins=[OriginRun("lines", 3, 2, 1, 10482)]))
    )


def test_duplicate_records_count_once() -> None:
    """Records may come in any order and more than once."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, End())) as cluster:
        feeder.feed(["a b"], 0)
        cluster.run_until_idle()
        found = list(records(cluster))
        (root,) = roots(found)
        assert rebuilt(cluster.topology, [*found, *reversed(found)], root) == rebuilt(
            cluster.topology, found, root
        )


def test_second_init_is_ignored() -> None:
    """The ledger ignores it too. Otherwise it would cancel out the first one."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, End())) as cluster:
        feeder.feed(["a b"], 0)
        cluster.run_until_idle()
        found = list(records(cluster))
        (root,) = roots(found)
        init = next(record for record in found if record.topic == "t.__acker")
        others = [
            r._replace(offset=r.offset + 1) if r.topic == "t.__acker" and r is not init else r
            for r in found
        ]
        again = [*others, init._replace(offset=init.offset + 1)]
        assert rebuilt(cluster.topology, again, root).proof.closed
