"""Lanes: buffers of tuples from one task's stream to one receiving task."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.core.columns import Ids
from kstorm.core.wire import pack_ids

Runs = list[tuple[int, int]]
"""Emitting tasks, each with the number of its tuples, in order."""

Parents = dict[int, list[int]]
"""Position → edges of the tuples that it is anchored to."""

NO_PARENTS: Final[Parents] = {}
NO_RUNS: Final[Runs] = []


class LaneRows(Struct, frozen=True):
    """Tuples that become one frame or several."""

    count: int
    columns: list[list[Any]]
    roots: bytes
    """Packed ids. Empty if no tuple is tracked. The same holds for `edges`."""
    edges: bytes
    more: dict[int, dict[int, int]]
    parents: Parents = {}
    """Anchors of tuples whose trees are traced."""
    runs: Runs = []
    """Empty while all tuples are of one task."""

    def part(self, start: int, end: int) -> "LaneRows":
        """Return the rows from `start` to before `end`."""
        if start == 0 and end >= self.count:
            return self
        return LaneRows(
            min(end, self.count) - start,
            [column[start:end] for column in self.columns],
            self.roots[8 * start : 8 * end],
            self.edges[8 * start : 8 * end],
            {
                position - start: pairs
                for position, pairs in self.more.items()
                if start <= position < end
            },
            {
                position - start: edges
                for position, edges in self.parents.items()
                if start <= position < end
            },
            list(_cut(self.runs, start, end)),
        )


def _cut(runs: Runs, start: int, end: int) -> Iterable[tuple[int, int]]:
    """Yield the runs of the rows from `start` to before `end`."""
    begin = 0
    for task, count in runs:
        left = min(end, begin + count) - max(start, begin)
        if left > 0:
            yield task, left
        begin += count


class GatheredRows:
    """The emits of finished frames, one frame after the other."""

    __slots__ = ("_edges", "_parents", "_roots", "_tracked", "rows")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._roots: list[bytes] = []
        self._edges: list[bytes] = []
        self._tracked = False
        self._parents: Parents = {}

    def add(self, rows: list[Any], roots: bytes, edges: bytes, parents: Parents) -> None:
        """Add a frame's rows. Packed ids are empty if the frame is not tracked."""
        if roots:
            self._tracked = True
        else:
            roots = edges = bytes(8 * len(rows))
        if parents:
            before = len(self.rows)
            self._parents.update((before + at, anchors) for at, anchors in parents.items())
        self.rows += rows
        self._roots.append(roots)
        self._edges.append(edges)

    def extend(self, others: "GatheredRows") -> None:
        """Add the rows of other frames."""
        if others._parents:
            before = len(self.rows)
            self._parents.update((before + at, edges) for at, edges in others._parents.items())
        self._tracked = self._tracked or others._tracked
        self.rows += others.rows
        self._roots += others._roots
        self._edges += others._edges

    def batch(self, runs: Runs = NO_RUNS) -> LaneRows:
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        roots, edges = (self._roots, self._edges) if self._tracked else ((), ())
        return LaneRows(
            len(self.rows), columns, b"".join(roots), b"".join(edges), {}, self._parents, runs
        )


class Lane:
    """Collects tuples in batches, or one by one in `rows`, `roots`, `edges` and `more`.

    The emits of a basic bolt during a frame wait in `frame_rows`, with the positions of their
    anchors in `frame_at`. Their ids are drawn together at the end of the frame. Then they are
    gathered with those of other frames, because each frame has only a few for each lane.
    """

    __slots__ = (
        "batches",
        "component",
        "edges",
        "frame_at",
        "frame_rows",
        "gathered",
        "more",
        "parents",
        "partition",
        "roots",
        "rows",
        "stream",
        "targets",
        "task",
        "topic",
    )

    def __init__(
        self, component: str, task: int, stream: str, topic: str, partition: int, target: int
    ) -> None:
        self.component, self.task, self.stream = component, task, stream
        self.topic, self.partition = topic, partition
        self.targets = (target,)
        """Topology-wide id of the receiving task, as `emit` returns it."""
        self.rows: list[Any] = []
        self.roots: list[int] = []
        self.edges: list[int] = []
        self.more: dict[int, dict[int, int]] = {}
        self.parents: Parents = {}
        self.batches: list[LaneRows] = []
        self.frame_rows: list[Any] = []
        self.frame_at: list[int] = []
        self.gathered = GatheredRows()

    def put(
        self,
        columns: list[list[Any]],
        count: int,
        roots: Ids | None,
        edges: Ids | None,
        parents: Parents = NO_PARENTS,
    ) -> None:
        """Add a batch. The lane owns it from now on."""
        if self.rows or self.gathered.rows:
            self._close()
        if roots is None or edges is None:
            self.batches.append(LaneRows(count, columns, b"", b"", {}))
        else:
            self.batches.append(
                LaneRows(count, columns, roots.tobytes(), edges.tobytes(), {}, parents)
            )

    def gather_frame(self, roots: bytes, edges: bytes, parents: Parents = NO_PARENTS) -> None:
        """The frame is finished: its emits leave with the next drain. `roots` and `edges` are
        packed ids, and empty if the frame is not tracked."""
        if self.rows:
            self._close()
        self.gathered.add(self.frame_rows, roots, edges, parents)
        self.frame_rows, self.frame_at = [], []

    @property
    def has_tuples(self) -> bool:
        """True if `take` would return tuples."""
        return bool(self.rows or self.gathered.rows or self.batches)

    def drop_frame_rows(self, position: int) -> None:
        """Drop the last emits of a frame that are anchored to the tuple at `position`."""
        while self.frame_at and self.frame_at[-1] == position:
            self.frame_at.pop()
            self.frame_rows.pop()

    def take(self) -> LaneRows:
        """Return all collected tuples in order, and empty the lane."""
        self._close()
        batches, self.batches = self.batches, []
        return batches[0] if len(batches) == 1 else _joined(batches)

    def _close(self) -> None:
        """Make batches of the rows. The gathered ones are older than those put one by one."""
        if self.gathered.rows:
            self.batches.append(self.gathered.batch())
            self.gathered = GatheredRows()
        if self.rows:
            self.batches.append(self._one_by_one())

    def _one_by_one(self) -> LaneRows:
        rows, roots, edges, more, parents = (
            self.rows,
            self.roots,
            self.edges,
            self.more,
            self.parents,
        )
        self.rows, self.roots, self.edges, self.more, self.parents = [], [], [], {}, {}
        tracked = any(roots)
        return LaneRows(
            len(rows),
            [list(column) for column in zip(*rows, strict=True)],
            pack_ids(roots) if tracked else b"",
            pack_ids(edges) if tracked else b"",
            more,
            parents,
        )


def take_together(lanes: Sequence[Lane]) -> LaneRows:
    """Return all tuples that several tasks have for one task, and empty their lanes."""
    if not any(lane.rows or lane.batches for lane in lanes):
        # The usual case: only the emits of basic bolts.
        together, runs = GatheredRows(), []
        for lane in lanes:
            runs.append((lane.task, len(lane.gathered.rows)))
            together.extend(lane.gathered)
            lane.gathered = GatheredRows()
        return together.batch(runs)
    taken = [lane.take() for lane in lanes]
    runs = [(lane.task, rows.count) for lane, rows in zip(lanes, taken, strict=True)]
    return _joined(taken, runs)


def _joined(batches: Sequence[LaneRows], runs: Runs = NO_RUNS) -> LaneRows:
    columns: list[list[Any]] = [[] for _ in batches[0].columns]
    more: dict[int, dict[int, int]] = {}
    parents: Parents = {}
    count = 0
    for batch in batches:
        for column, values in zip(columns, batch.columns, strict=True):
            column += values
        for position, pairs in batch.more.items():
            more[count + position] = pairs
        parents.update((count + position, anchors) for position, anchors in batch.parents.items())
        count += batch.count
    if not any(batch.roots for batch in batches):
        return LaneRows(count, columns, b"", b"", more, parents, runs)
    roots = b"".join(batch.roots or bytes(8 * batch.count) for batch in batches)
    edges = b"".join(batch.edges or bytes(8 * batch.count) for batch in batches)
    return LaneRows(count, columns, roots, edges, more, parents, runs)
