"""Find what a tree waited for at the moment when its spout gave up on it."""

from collections.abc import Iterator, Sequence

from kstorm.operations.formatting import counted, duration
from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree import Tree, build
from kstorm.operations.trees.tree_reader import TreeRecords


def tree_at(tree: Tree, ms: int) -> Tree:
    """Return the tree as it was at a Unix time in ms."""
    sightings = [seen for tuple in tree.tuples.values() for seen in tuple.sightings]
    return build(
        TreeRecords(
            tree.root,
            [seen for seen in sightings if seen.place.timestamp <= ms],
            [news for news in tree.news if news.place.timestamp <= ms],
            [ending for ending in tree.endings if ending.place.timestamp <= ms],
        )
    )


def timeout_reasons(trees: Sequence[Tree], ms: int) -> Sequence[str]:
    """Describe what the trees of an attempt waited for at a Unix time in ms, one line per tuple.

    Each line contains the task that had not acked the tuple, and the tuple's position: `count[3],
    row 182 of wordcount.count/3/0: sent 30.1 s before, and not acked`.
    """
    return [said for tree in trees for said in _reasons_of(tree, ms)]


def _reasons_of(tree: Tree, ms: int) -> Iterator[str]:
    then = tree_at(tree, ms)
    if then.outcome == "acked":
        yield (
            f"nothing: the tree {tree.root:016x} was complete, but its spout had not received "
            "the completion"
        )
        return
    if not then.proof.begun:
        yield f"its acker, which had not received the tree {tree.root:016x}"
        return
    waiting = open_edges(then)
    for edge in waiting.unacked:
        yield f"{_place(then, edge)}: {_sent(then, edge, ms)}, and {_acked(tree, edge, ms)}"
    for edge in [*waiting.twice, *waiting.strange]:
        yield (
            f"{_place(then, edge)}: it was executed again after a crash, so the tree could "
            "never be complete"
        )
    for edge in waiting.doubtful:
        yield f"most likely {_place(then, edge)}: {_sent(then, edge, ms)}"
    if waiting.among:
        lost = "a tuple that is in no record, or for " if waiting.lost else ""
        yield (
            f"{lost}one of {counted(len(waiting.among), 'tuple')}, such as "
            f"{_place(then, waiting.among[0])}"
        )
    if not any((waiting.unacked, waiting.twice, waiting.strange, waiting.doubtful, waiting.among)):
        yield (
            "a tuple that is in no record: it was lost with the process that sent it, or was "
            "still on its way"
        )


def _place(tree: Tree, edge: int) -> str:
    seen = tree.tuples[edge].first
    place = seen.place
    return (
        f"{seen.target}[{place.partition}], row {seen.row} of "
        f"{place.topic}/{place.partition}/{place.offset}"
    )


def _sent(tree: Tree, edge: int, ms: int) -> str:
    return f"sent {duration(ms - tree.tuples[edge].first.place.timestamp)} before"


def _acked(tree: Tree, edge: int, ms: int) -> str:
    """Describe whether the tuple was acked later, and when, according to the records that were
    read."""
    for number, entry in tree.entries.items():
        if entry is not None and edge in entry.acked:
            return f"acked {duration(max(0, tree.news[number].place.timestamp - ms))} too late"
    return "not acked"
