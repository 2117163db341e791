"""A tree as text: each tuple in a row, below the one that it hangs on, with a bar for when it was sent and acked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.errors import TopologyError
from kstorm.inspect.facts import Message
from kstorm.inspect.gather import News
from kstorm.inspect.tree import Tree, TreeTuple
from kstorm.inspect.waiting import waits_for
from kstorm.inspect.words import clock, failure, many, span
from kstorm.topology import Topology

_ALIKE: Final = 3
"""Tuples without children of their own, in a row to one component, of which more are shown as one."""
_BAR: Final = 24
_MOST_ROWS: Final = 200
_PLAIN, _CRITICAL = "▒", "█"
_MOST_VALUE: Final = 60


class Row(Struct, frozen=True):
    """What one row shows."""

    label: str
    start: int
    """Milliseconds from the beginning of the tree until it was sent."""
    end: int | None
    """Until its ack was in the acker's log; None if that cannot be told."""
    note: str
    critical: bool = False
    """Whether the end of the tree waited for it."""


def draw(tree: Tree, topology: Topology, values: bool = False, everything: bool = False) -> Iterator[str]:
    """The lines of a tree. `values`: show what tuples hold. `everything`: show each tuple, however many are alike."""
    yield headline(tree, topology)
    drawing = _Drawing(tree, topology, values, everything)
    rows = list(drawing.rows())
    length = max([1, *(row.end or row.start for row in rows), (tree.ended or 0) - tree.begun])
    width = max((len(row.label) for row in rows), default=0)
    for row in rows[:_MOST_ROWS]:
        end = f"{'–':>6}   " if row.end is None else f"{row.end:>6,} ms"
        yield f"{row.label:<{width}}  {_bar(row, length)} {end}  {row.note}".rstrip()
    if len(rows) > _MOST_ROWS:
        yield f"… and {many(len(rows) - _MOST_ROWS, 'row')} more: --json has all of them"
    if any(row.critical for row in rows):
        yield f"{_CRITICAL * 2} the critical path: the end of the tree waited for these"


def headline(tree: Tree, topology: Topology) -> str:
    """What became of a tree, and whether that is proven."""
    origin = tree.origin
    about = f"{Message(*origin[:3])} attempt {origin.attempt}, " if origin else ""
    took = f" in {span(tree.ended - tree.begun)}" if tree.ended is not None else ""
    began = f", begun {clock(tree.begun)}" if tree.begun else ""
    return f"{about}root {tree.root:016x}{began}: {_outcome(tree, topology)}{took}, {many(len(tree.tuples), 'tuple')}"


def _outcome(tree: Tree, topology: Topology) -> str:
    proof = tree.proof
    if proof.closed is not None:
        some = "" if proof.in_order else "some of its "
        return f"✓ complete, proven (init ⊕ {some}{many(proof.acks, 'ack')} = 0)"
    if proof.failed is not None:
        note = tree.note
        return "✗ failed" if note is None else f"✗ failed{failure(note, _name(topology, note.task))}"
    if any(ending.kind == "acked" for ending in tree.endings):
        return "✓ acked, and no proof of it: records of it are gone"
    return "… open" if proof.begun else "… not heard of by its acker"


class _Drawing:
    def __init__(self, tree: Tree, topology: Topology, values: bool, everything: bool) -> None:
        self._tree, self._topology, self._values, self._everything = tree, topology, values, everything
        self._children = tree.children()
        self._acks = acks_of(tree)
        waiting = waits_for(tree)
        self._critical = critical_path(tree) if tree.outcome == "acked" else frozenset()
        failed = [
            edge for edge, tuple in tree.tuples.items() if tree.note and tuple.first.target_task == tree.note.task
        ]
        self._marks = {
            **dict.fromkeys(failed, "✗ failed it" if len(failed) == 1 else "✗ one of these failed it"),
            **dict.fromkeys(waiting.among, "◆ one of these is not acked"),
            **dict.fromkeys(waiting.doubtful, "◆ most likely not acked"),
            **dict.fromkeys(waiting.strange, "◆ acked, and announced by nobody"),
            **dict.fromkeys(waiting.twice, "◆ acked twice"),
            **dict.fromkeys(waiting.unacked, "◆ not acked: the tree waits for it"),
        }
        self._drawn: set[int] = set()

    def rows(self) -> Iterator[Row]:
        """From the top down."""
        init = self._tree.init
        if init is not None:
            yield Row(_name(self._topology, init.task), 0, 0, init.by)
        yield from self._below(0, 1)
        lost = [edge for edge in self._tree.tuples if edge not in self._drawn]  # in a circle, or below what is gone
        for edge in lost:
            yield self._row(self._tree.tuples[edge], 1)

    def _below(self, parent: int, depth: int) -> Iterator[Row]:
        edges = [edge for edge in self._children.get(parent, ()) if edge not in self._drawn]
        self._drawn.update(edges)
        for group in _alike(edges, self._tree.tuples, self._children, self._marks):
            if len(group) > _ALIKE and not self._everything:
                yield self._sum(group, depth)
                continue
            for edge in group:
                yield self._row(self._tree.tuples[edge], depth)
                yield from self._below(edge, depth + 1)

    def _row(self, tuple: TreeTuple, depth: int) -> Row:
        seen = tuple.first
        said = [self._marks[tuple.edge]] if tuple.edge in self._marks else []
        ack = self._acks.get(tuple.edge)
        if ack is not None and ack.by:
            said.append(f"{ack.by} worked {span(ack.worked)}")
        said.append(f"{seen.place.topic}/{seen.place.partition}/{seen.place.offset} row {seen.row}")
        if not tuple.exact:
            said.append(f"one of {len(tuple.parents)} parents")
        if len(tuple.sightings) > 1:
            said.append(f"sent {len(tuple.sightings)} times")
        if seen.stream != "default":
            said.append(f"stream {seen.stream}")
        if self._values:
            said.append(shown(seen.values))
        label = f"{'  ' * depth}{seen.target}:{seen.target_task}"
        start = seen.place.timestamp - self._tree.begun
        return Row(label, start, self._end(tuple.edge), ", ".join(said), tuple.edge in self._critical)

    def _sum(self, group: Sequence[int], depth: int) -> Row:
        first = [self._tree.tuples[edge].first for edge in group]
        ends = [end for edge in group if (end := self._end(edge)) is not None]
        tasks = len({seen.target_task for seen in first})
        return Row(
            f"{'  ' * depth}{first[0].target} ×{len(group)}",
            min(seen.place.timestamp for seen in first) - self._tree.begun,
            max(ends) if len(ends) == len(group) else None,
            f"at {many(tasks, 'task')}",
        )

    def _end(self, edge: int) -> int | None:
        ack = self._acks.get(edge)
        return None if ack is None else ack.place.timestamp - self._tree.begun


def shown(values: Sequence[Any]) -> str:
    """The values of a tuple, as Python writes them: nothing of that is obeyed by a terminal."""
    cut = (repr(value)[: _MOST_VALUE + 1] for value in values)
    return f"[{', '.join(text if len(text) <= _MOST_VALUE else f'{text[:_MOST_VALUE]}…' for text in cut)}]"


def critical_path(tree: Tree) -> frozenset[int]:
    """The edges from the tuple that was acked last up to the spout's, as far as it is known which hangs on which."""
    times = ack_times(tree)
    edge = max(times, key=lambda edge: (times[edge], tree.tuples[edge].first.place.timestamp), default=None)
    found: set[int] = set()
    while edge is not None and edge not in found:
        found.add(edge)
        parents = tree.tuples[edge].parents
        edge = parents[0] if parents else None
    return frozenset(found)


def _name(topology: Topology, task: int) -> str:
    """`split:5`."""
    try:
        return f"{topology.locate_task(task)[0]}:{task}"
    except TopologyError:
        return f"task {task}"


def acks_of(tree: Tree) -> dict[int, News]:
    """By edge, the first ack of it, as far as that can be told."""
    found: dict[int, News] = {}
    for number, entry in tree.entries.items():
        for edge in entry.acked if entry else ():
            found.setdefault(edge, tree.news[number])
    return found


def ack_times(tree: Tree) -> dict[int, int]:
    """By edge, when its ack was in the log, as far as that can be told."""
    return {edge: ack.place.timestamp for edge, ack in acks_of(tree).items()}


def _alike(
    edges: Sequence[int],
    tuples: Mapping[int, TreeTuple],
    children: Mapping[int, Sequence[int]],
    marks: Mapping[int, str],
) -> Iterator[list[int]]:
    """In groups of those that may be shown as one."""
    group: list[int] = []
    for edge in sorted(edges, key=lambda edge: (tuples[edge].first.target, edge in marks or edge in children)):
        plain = edge not in marks and edge not in children
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


def _bar(row: Row, length: int) -> str:
    """When a tuple was sent and acked; open to the right if no ack is known."""
    first = min(_BAR - 1, row.start * _BAR // length)
    if row.end is None:
        return f"{' ' * first}▏{'·' * (_BAR - first - 1)}"
    last = max(first + 1, min(_BAR, -(-row.end * _BAR // length)))
    return f"{' ' * first}{(_CRITICAL if row.critical else _PLAIN) * (last - first)}{' ' * (_BAR - last)}"
