"""Collects the sends of one process's tasks and packs them into frames.

Tuples are collected in `TupleSends`. Acks are XOR-folded per root over all tasks of
the process. So a batch of input frames results in equally few, full records. `drain_tuples` and
`drain_acks` are separate because the results of a stateful bolt leave at once, while its acks wait
until its state is durable.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kstorm.core.columns import Ids, fold, fold_runs, from_pairs
from kstorm.core.dead_letters import LetterToStore
from kstorm.core.failure_notes import MOST_NOTES, Note, note_of
from kstorm.core.lanes import Lane
from kstorm.core.origin_numbers import Numbers, OriginNumbers, Run, unknown_origins
from kstorm.core.outgoing import OutgoingRecord, Part
from kstorm.core.trace_sampling import trace_sampler
from kstorm.core.tuple_sends import OversizedTuple, TupleSends
from kstorm.core.wire import WRITERS, AckFrame, pack_ids
from kstorm.topology import Topology


class NewTrees(NamedTuple):
    """New trees of a spout task, in columns."""

    task: int
    roots: Ids
    vals: Ids
    """XOR of the edges of each root's first tuples."""
    places: Numbers
    """Numbers for the source of each message, assigned by `kstorm.core.origin_numbers.OriginNumbers`."""
    offsets: Numbers

    def of(self, rows: Any) -> "NewTrees":
        """Select rows by a slice or a mask."""
        return NewTrees(self.task, *(column[rows] for column in self[1:]))

    def parts(self, most: int) -> Iterator["NewTrees"]:
        """Yield chunks of at most `most` rows."""
        return (self.of(slice(at, at + most)) for at in range(0, self.roots.size, most))


class Outbox:
    """The sends of one process, until they are drained."""

    def __init__(self, topology: Topology) -> None:
        self.ackers = topology.config.acker_tasks
        self.trace = trace_sampler(topology.config.topology_trace)
        """Selects the trees whose tuples record their anchors. None if no tree is traced."""
        self._acker_topic = topology.acker_topic
        self._format = topology.config.topology_frame_format
        self._write = WRITERS[self._format]
        self._tuples = TupleSends(topology.config, self.refuse)
        self.acks: dict[int, int] = {}
        """Root → XOR since the last drain."""
        self.fails: set[int] = set()
        self.resets: set[int] = set()
        self.inits: dict[int, list[tuple[int, int]]] = {}
        """Spout task → (root, XOR of its first edges)."""
        self.beginnings: set[int] = set()
        """Spout tasks that have started a new run since the last drain."""
        self._ack_columns: list[tuple[Ids, Ids]] = []
        self._folded_acks: list[tuple[Ids, Ids]] = []
        self._begun: list[NewTrees] = []
        self._places = OriginNumbers()
        self._notes: dict[int, Note] = {}
        self.by = ""
        """The sending instance, as written in frames."""
        self.worked = 0
        """Milliseconds of work on the next drain, as written in its frames. 0 if unknown."""
        self.letters: list[LetterToStore] = []
        self.records: list[Part] = []
        """Records of sinks, if they are sent together with the tasks' frames."""
        self.too_large: list[OversizedTuple] = []
        """Tuples that were too large to send, since the caller last cleared the list."""
        self.handed_over: deque[Callable[[], None]] = deque()
        """Calls of collectors by threads that do not run the tasks. Any thread may append."""

    def take_over(self) -> None:
        """Make the calls that other threads have handed over."""
        while self.handed_over:
            self.handed_over.popleft()()

    def lane(
        self, component: str, task: int, stream: str, topic: str, partition: int, target: int
    ) -> Lane:
        """Create a lane, which lives as long as its task."""
        lane = Lane(component, task, stream, topic, partition, target)
        self._tuples.add(lane)
        return lane

    def forget(self, task: int) -> None:
        """Drop the lanes and the pending start report of a task that left this process."""
        self._tuples.forget(task)
        self.beginnings.discard(task)

    def init(self, spout_task: int, root: int, val: int) -> None:
        self.inits.setdefault(spout_task, []).append((root, val))

    def init_columns(
        self, spout_task: int, roots: Ids, vals: Ids, origins: Iterable[Run] = ()
    ) -> None:
        """Start many trees. `origins` are their source messages: one for each, or none at all."""
        columns = self._places.columns(origins) if origins else unknown_origins(roots.size)
        self._begun.append(NewTrees(spout_task, roots, vals, *columns))

    @property
    def wants_notes(self) -> bool:
        """Return True if the next acks can contain failure notes."""
        return len(self._notes) < MOST_NOTES

    def fail(self, roots: Iterable[int], note: Note | None) -> None:
        """Fail trees, with a note if there is room for one."""
        roots = list(roots)
        self.fails.update(roots)
        if note is not None:
            for root in roots[: MOST_NOTES - len(self._notes)]:
                self._notes[root] = note

    def go_on_without(self, pairs: Mapping[int, int]) -> None:
        """Undo the failure of trees caused by a tuple: it counts as acked.

        `pairs`: root → the tuple's edge.
        """
        for root, edge in pairs.items():
            self.fails.discard(root)
            self._notes.pop(root, None)
            self.acks[root] = self.acks.get(root, 0) ^ edge

    def ack_columns(self, roots: Ids, vals: Ids) -> None:
        """Add XOR values for many roots."""
        self._ack_columns.append((roots, vals))
        if len(self._ack_columns) >= _UNFOLDED:
            self._fold_acks()

    def _fold_acks(self) -> None:
        """Fold equal roots that are adjacent. The acks of a frame are too few to do so each time."""
        columns, self._ack_columns = self._ack_columns, []
        if columns:
            self._folded_acks.append(fold_runs(*map(np.concatenate, zip(*columns, strict=True))))

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        """Tuples drained, by stream and topic."""
        return self._tuples.sent

    @property
    def has_tuples(self) -> bool:
        return self._tuples.any

    @property
    def has_acks(self) -> bool:
        return bool(self._has_news or self.inits or self._begun or self.beginnings)

    @property
    def _has_news(self) -> bool:
        return bool(
            self.acks or self._ack_columns or self._folded_acks or self.fails or self.resets
        )

    def drain_tuples(self) -> list[OutgoingRecord]:
        """Return the tuple frames collected since the last call."""
        return self._tuples.drain(self.by, self.worked)

    def drain_acks(self) -> list[OutgoingRecord]:
        """Return the ack frames collected since the last call.

        Usually, each acker task gets one frame of acks, and one frame of inits per spout task.
        """
        if not self.ackers:
            self.acks, self._ack_columns, self._folded_acks = {}, [], []
            self.fails, self.resets, self.beginnings, self._notes = set(), set(), set(), {}
            return []
        return [*self._beginning_frames(), *self._init_frames(), *self._ack_frames()]

    def _beginning_frames(self) -> Iterator[OutgoingRecord]:
        beginnings, self.beginnings = self.beginnings, set()
        for task in beginnings:
            for acker in range(self.ackers):
                yield self._to_acker(acker, AckFrame(self._format, task, begins=True))

    def _init_frames(self) -> Iterator[OutgoingRecord]:
        if not (self.inits or self._begun):
            return
        inits = [(task, from_pairs(dict(pairs))) for task, pairs in self.inits.items()]
        begun = [
            NewTrees(task, *columns, *unknown_origins(columns[0].size)) for task, columns in inits
        ] + self._begun
        self.inits, self._begun = {}, []
        for task in dict.fromkeys(trees.task for trees in begun):
            mine = _joined([trees for trees in begun if trees.task == task])
            for acker, rows in enumerate(self._rows_by_acker(mine.roots)):
                for part in mine.of(rows).parts(_MAX_ROWS):
                    frame = AckFrame(
                        self._format,
                        task,
                        init_roots=part.roots.tobytes(),
                        init_vals=part.vals.tobytes(),
                        by=self.by,
                        worked=self.worked,
                        origins=self._places.runs(part.places, part.offsets),
                    )
                    yield self._to_acker(acker, frame)
        self._places.make_room()

    def _ack_frames(self) -> Iterator[OutgoingRecord]:
        if not self._has_news:
            return
        self._fold_acks()
        news = [*self._folded_acks, from_pairs(self.acks)]
        roots, vals = fold(
            np.concatenate([roots for roots, _ in news]), np.concatenate([vals for _, vals in news])
        )
        shares = self._shares(roots, vals)
        failed, reset = _by_acker(self.fails, self.ackers), _by_acker(self.resets, self.ackers)
        notes = _notes_by_acker(self._notes, self.ackers)
        self.acks, self._folded_acks = {}, []
        self.fails, self.resets, self._notes = set(), set(), {}
        for acker, (packed_roots, packed_vals) in enumerate(shares):
            for part in _parts(max(len(packed_roots), len(failed[acker]), len(reset[acker]))):
                yield self._to_acker(
                    acker,
                    AckFrame(
                        self._format,
                        0,
                        roots=packed_roots[part],
                        vals=packed_vals[part],
                        failed=failed[acker][part],
                        reset=reset[acker][part],
                        by=self.by,
                        worked=self.worked,
                        notes=notes.pop(acker, {}),
                    ),
                )

    def _shares(self, roots: Ids, vals: Ids) -> list[tuple[bytes, bytes]]:
        """Pack the columns for each acker task."""
        return [
            (roots[rows].tobytes(), vals[rows].tobytes()) for rows in self._rows_by_acker(roots)
        ]

    def _rows_by_acker(self, roots: Ids) -> list[Any]:
        """Return, for each acker task, a selection of its rows in a column of roots."""
        if self.ackers == 1:
            return [slice(None)]
        owner = roots % np.uint64(self.ackers)
        return [owner == acker for acker in range(self.ackers)]

    def _to_acker(self, acker: int, frame: AckFrame) -> OutgoingRecord:
        return OutgoingRecord(self._acker_topic, acker, self._write(frame))

    def refuse(self, tuple: OversizedTuple) -> None:
        """Fail the trees of a tuple that cannot be sent."""
        self.fail(tuple.pairs, note_of(tuple.task, tuple.error()) if self.wants_notes else None)
        self.too_large.append(tuple)


def ms_between(began: float, ended: float) -> int:
    """Return whole milliseconds, at least 1, because 0 means unknown."""
    return max(1, round((ended - began) * 1000))


def _by_acker(roots: set[int], ackers: int) -> list[bytes]:
    shares: list[list[int]] = [[] for _ in range(ackers)]
    for root in roots:
        shares[root % ackers].append(root)
    return [pack_ids(share) for share in shares]


def _notes_by_acker(notes: dict[int, Note], ackers: int) -> dict[int, dict[int, Note]]:
    shares: dict[int, dict[int, Note]] = {}
    for root, note in notes.items():
        shares.setdefault(root % ackers, {})[root] = note
    return shares


def _parts(length: int) -> Iterator[slice]:
    """Cut a packed column into pieces that fit into a record."""
    return (slice(at, at + 8 * _MAX_ROWS) for at in range(0, length, 8 * _MAX_ROWS))


_UNFOLDED = 256
"""Frames whose acks are folded together."""
_MAX_ROWS = 20_000  # roots in one record: 320 kB


def _joined(several: Sequence[NewTrees]) -> NewTrees:
    """Concatenate trees of one task."""
    if len(several) == 1:
        return several[0]
    return NewTrees(
        several[0].task, *map(np.concatenate, zip(*(trees[1:] for trees in several), strict=True))
    )
