"""Arrange a tree as rows: each tuple below its parent, with times of send and ack, and remarks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree import Tree, TreeTuple
from kstorm.operations.trees.tree_reader import AckerEntry, RecordPlace

_ALIKE: Final = 3
"""If more than this number of consecutive tuples to one component have no children, they share one
row."""


class WaterfallRow(Struct, frozen=True, kw_only=True):
    """A row shows the spout's emit, a tuple, or several similar tuples.

    Times are ms from the tree's beginning.
    """

    depth: int
    """0 is the spout."""
    component: str
    task: int | None
    """Topology-wide id. None for several tuples."""
    count: int = 1
    """Number of tuples."""
    tasks: int = 1
    """Number of tasks that received them."""
    start: int
    """Time when it was sent."""
    end: int | None
    """Time when its ack was in the acker's log. None if unknown."""
    by: str = ""
    """Process that acked it. For the spout's row, the process that emitted it."""
    worked: int = 0
    """Milliseconds of work that the process did before the ack."""
    mark: str = ""
    """A remark if the tuple failed or keeps the tree open."""
    critical: bool = False
    """True if the end of the tree waited for it."""
    place: RecordPlace | None = None
    """Frame that contains it."""
    row: int = 0
    """Index in the frame."""
    parents: int = 1
    """Number of possible parents. 1 if the parents are exact."""
    sent: int = 1
    """Number of times that its record was sent."""
    stream: str = "default"
    values: Sequence[Any] = ()


def waterfall_of(tree: Tree, everything: bool = False) -> Iterator[WaterfallRow]:
    """Yield the rows from the top down.

    With `everything`, each tuple has its own row instead of grouping similar ones.
    """
    return _Waterfall(tree, everything).rows()


class _Waterfall:
    def __init__(self, tree: Tree, everything: bool) -> None:
        self._tree, self._everything = tree, everything
        self._children = tree.children()
        self._acks = acks_of(tree)
        waiting = open_edges(tree)
        self._critical = critical_path(tree) if tree.outcome == "acked" else frozenset()
        failed = [
            edge
            for edge, tuple in tree.tuples.items()
            if tree.note and tuple.first.target_task == tree.note.task
        ]
        self._marks = {
            **dict.fromkeys(
                failed,
                "✗ failed the tree" if len(failed) == 1 else "✗ one of these failed the tree",
            ),
            **dict.fromkeys(waiting.among, "◆ one of these is not acked"),
            **dict.fromkeys(waiting.doubtful, "◆ most likely not acked"),
            **dict.fromkeys(waiting.strange, "◆ acked, but never announced"),
            **dict.fromkeys(waiting.twice, "◆ acked twice"),
            **dict.fromkeys(waiting.unacked, "◆ not acked: the tree waits for it"),
        }
        self._drawn: set[int] = set()

    def rows(self) -> Iterator[WaterfallRow]:
        init = self._tree.init
        if init is not None:
            yield WaterfallRow(
                depth=0,
                component="",
                task=init.task,
                start=0,
                end=0,
                by=init.by,
                worked=init.worked,
            )
        yield from self._below(0, 1)
        # Add tuples in a cycle, or below a missing parent.
        lost = [edge for edge in self._tree.tuples if edge not in self._drawn]
        for edge in lost:
            yield self._row(self._tree.tuples[edge], 1)

    def _below(self, parent: int, depth: int) -> Iterator[WaterfallRow]:
        edges = [edge for edge in self._children.get(parent, ()) if edge not in self._drawn]
        self._drawn.update(edges)
        for group in self._alike(edges):
            if len(group) > _ALIKE and not self._everything:
                yield self._sum(group, depth)
                continue
            for edge in group:
                yield self._row(self._tree.tuples[edge], depth)
                yield from self._below(edge, depth + 1)

    def _row(self, tuple: TreeTuple, depth: int) -> WaterfallRow:
        seen, ack = tuple.first, self._acks.get(tuple.edge)
        return WaterfallRow(
            depth=depth,
            component=seen.target,
            task=seen.target_task,
            start=seen.place.timestamp - self._tree.begun,
            end=self._end(tuple.edge),
            by="" if ack is None else ack.by,
            worked=0 if ack is None else ack.worked,
            mark=self._marks.get(tuple.edge, ""),
            critical=tuple.edge in self._critical,
            place=seen.place,
            row=seen.row,
            parents=1 if tuple.exact else len(tuple.parents),
            sent=len(tuple.sightings),
            stream=seen.stream,
            values=seen.values,
        )

    def _sum(self, group: Sequence[int], depth: int) -> WaterfallRow:
        first = [self._tree.tuples[edge].first for edge in group]
        ends = [end for edge in group if (end := self._end(edge)) is not None]
        return WaterfallRow(
            depth=depth,
            component=first[0].target,
            task=None,
            count=len(group),
            tasks=len({seen.target_task for seen in first}),
            start=min(seen.place.timestamp for seen in first) - self._tree.begun,
            end=max(ends) if len(ends) == len(group) else None,
            critical=any(edge in self._critical for edge in group),
        )

    def _end(self, edge: int) -> int | None:
        ack = self._acks.get(edge)
        return None if ack is None else ack.place.timestamp - self._tree.begun

    def _alike(self, edges: Sequence[int]) -> Iterator[list[int]]:
        """Yield groups of edges that may be shown as one row."""
        tuples, group = self._tree.tuples, list[int]()
        for edge in sorted(
            edges, key=lambda edge: (tuples[edge].first.target, not self._is_plain(edge))
        ):
            plain = self._is_plain(edge)
            same = group and tuples[group[0]].first.target == tuples[edge].first.target
            if group and not (plain and same):
                yield group
                group = []
            group.append(edge)
            if not plain:
                yield group
                group = []
        if group:
            yield group

    def _is_plain(self, edge: int) -> bool:
        return edge not in self._marks and edge not in self._children


def critical_path(tree: Tree) -> frozenset[int]:
    """Return the edges from the tuple acked last up to the spout, if the parents are known."""
    times = ack_times(tree)
    edge = max(
        times, key=lambda edge: (times[edge], tree.tuples[edge].first.place.timestamp), default=None
    )
    found: set[int] = set()
    while edge is not None and edge not in found:
        found.add(edge)
        parents = tree.tuples[edge].parents
        edge = parents[0] if parents else None
    return frozenset(found)


def acks_of(tree: Tree) -> Mapping[int, AckerEntry]:
    """Return the first ack of each edge whose ack could be resolved."""
    found: dict[int, AckerEntry] = {}
    for number, entry in tree.entries.items():
        for edge in entry.acked if entry else ():
            found.setdefault(edge, tree.news[number])
    return found


def ack_times(tree: Tree) -> Mapping[int, int]:
    """Return the timestamp of the first ack of each edge whose ack could be resolved."""
    return {edge: ack.place.timestamp for edge, ack in acks_of(tree).items()}
