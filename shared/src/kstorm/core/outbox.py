"""Collects what the tasks of one process send, and packs it into frames.

Tuples are kept per (stream, receiving task), acks XOR-folded per root over all tasks of the process, so that a batch of
input frames leaves as few, full records. `drain_tuples` and `drain_acks` are apart because a stateful bolt's results
may leave at once, while its acks wait until its state is durable.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from kstorm.core.begun import Begun, joined
from kstorm.core.columns import Ids, fold, fold_runs, from_pairs
from kstorm.core.dead_letters import DeadLetter, LetterToStore
from kstorm.core.lanes import Lane, Rows
from kstorm.core.notes import MOST_NOTES, Note, note_of
from kstorm.core.origins import Places, Run, unknown
from kstorm.core.outgoing import Outgoing, Part
from kstorm.core.tracing import tracing
from kstorm.core.wire import (
    WRITERS,
    AckFrame,
    CompletionFrame,
    TupleFrame,
    encode_tuples,
    pack_ids,
    unpack_ids,
)
from kstorm.errors import TupleTooLargeError
from kstorm.topology import Topology


class TooLarge(Struct, frozen=True):
    """A tuple that no record can hold. Its trees must not wait for it."""

    component: str
    task: int
    stream: str
    size: int
    limit: int
    reason: str
    pairs: dict[int, int]
    """Its trees, each with the edge that the tuple is there."""

    def error(self, followed: str = "its trees were failed") -> TupleTooLargeError:
        """What to tell the user."""
        return TupleTooLargeError(f"{self._what}: {followed}")

    def letter(self, topology: str) -> DeadLetter:
        """The dead letter for it, where no tree fails."""
        return DeadLetter(
            topology=topology, component=self.component, task=self.task, reason=self._what
        )

    @property
    def _what(self) -> str:
        return (
            f"a tuple of {self.component!r} on the stream {self.stream!r} ({self.size:,} bytes encoded, the limit is "
            f"{self.limit:,}) {self.reason}"
        )


class Outbox:
    """The sends of one process, until they are drained."""

    def __init__(self, topology: Topology) -> None:
        self.ackers = topology.config.acker_tasks
        self.trace = tracing(topology.config.topology_trace)
        """The trees whose tuples say what they are anchored to; None if no tree's do."""
        self._acker_topic = topology.acker_topic
        self._format = topology.config.topology_frame_format
        self._write = WRITERS[self._format]
        self._max_tuples = topology.config.topology_frame_max_tuples
        self._max_bytes = topology.config.topology_frame_max_bytes
        self._lanes: list[Lane] = []
        self.acks: dict[int, int] = {}
        """Root → XOR since the last drain."""
        self.fails: set[int] = set()
        self.resets: set[int] = set()
        self.inits: dict[int, list[tuple[int, int]]] = {}
        """Spout task → (root, XOR of its first edges)."""
        self.beginnings: set[int] = set()
        """Spout tasks that begin a new life."""
        self._ack_columns: list[tuple[Ids, Ids]] = []
        self._begun: list[Begun] = []
        self._places = Places()
        self._notes: dict[int, Note] = {}
        self.by = ""
        """The instance that sends, as frames say it."""
        self.worked = 0
        """Milliseconds of work on what is drained next, as its frames say it; 0 if nobody knows."""
        self.sent: dict[tuple[str, str], int] = {}
        """By stream and topic, how many tuples were drained."""
        self.letters: list[LetterToStore] = []
        self.records: list[Part] = []
        """Of sinks, where they leave with what the tasks send."""
        self.too_large: list[TooLarge] = []
        """What could not be sent for its size since the caller last looked."""

    def lane(
        self, component: str, task: int, stream: str, topic: str, partition: int, target: int
    ) -> Lane:
        """A new lane; it lives as long as its task."""
        lane = Lane(component, task, stream, topic, partition, target)
        self._lanes.append(lane)
        return lane

    def forget(self, task: int) -> None:
        """Drops the lanes of a task that left this process, with whatever they hold; nothing more is said of its life."""
        self._lanes = [lane for lane in self._lanes if lane.task != task]
        self.beginnings.discard(task)

    def init(self, spout_task: int, root: int, val: int) -> None:
        """A tree begins."""
        self.inits.setdefault(spout_task, []).append((root, val))

    def init_columns(
        self, spout_task: int, roots: Ids, vals: Ids, origins: Iterable[Run] = ()
    ) -> None:
        """Many trees begin; `origins` are the messages that they come from, one each or none."""
        columns = self._places.columns(origins) if origins else unknown(roots.size)
        self._begun.append(Begun(spout_task, roots, vals, *columns))

    @property
    def wants_notes(self) -> bool:
        """Whether a note would leave with the next acks."""
        return len(self._notes) < MOST_NOTES

    def fail(self, roots: Iterable[int], note: Note | None) -> None:
        """Trees fail."""
        roots = list(roots)
        self.fails.update(roots)
        if note is not None:
            for root in roots[: MOST_NOTES - len(self._notes)]:
                self._notes[root] = note

    def go_on_without(self, pairs: Mapping[int, int]) -> None:
        """Trees that were failed for a tuple go on: there it counts as acked. `pairs`: the trees, each with the tuple's edge."""
        for root, edge in pairs.items():
            self.fails.discard(root)
            self._notes.pop(root, None)
            self.acks[root] = self.acks.get(root, 0) ^ edge

    def ack_columns(self, roots: Ids, vals: Ids) -> None:
        """News of many trees: what is to be XORed to each root."""
        self._ack_columns.append(fold_runs(roots, vals))

    @property
    def has_tuples(self) -> bool:
        """Whether `drain_tuples` would return any frame."""
        return any(lane.rows or lane.batches for lane in self._lanes)

    @property
    def has_acks(self) -> bool:
        """Whether `drain_acks` would return any frame."""
        news = self.acks or self._ack_columns or self.fails or self.resets
        return bool(news or self.inits or self._begun or self.beginnings)

    def drain_tuples(self) -> list[Outgoing]:
        """The tuple frames collected since the last call."""
        sends: list[Outgoing] = []
        for lane in self._lanes:
            if lane.rows or lane.batches:
                sends.extend(self._frames(lane))
        return sends

    def drain_acks(self) -> list[Outgoing]:
        """The ack frames collected since the last call: one per acker task, and one more per spout task with inits."""
        if not self.ackers:
            self.acks, self.fails, self.resets, self.beginnings, self._ack_columns = (
                {},
                set(),
                set(),
                set(),
                [],
            )
            self._notes = {}
            return []
        return [*self._beginning_frames(), *self._init_frames(), *self._ack_frames()]

    def _beginning_frames(self) -> Iterator[Outgoing]:
        beginnings, self.beginnings = self.beginnings, set()
        for task in beginnings:
            for acker in range(self.ackers):
                yield self._to_acker(acker, AckFrame(self._format, task, begins=True))

    def _init_frames(self) -> Iterator[Outgoing]:
        if not (self.inits or self._begun):
            return
        inits = [(task, from_pairs(dict(pairs))) for task, pairs in self.inits.items()]
        begun = [
            Begun(task, *columns, *unknown(columns[0].size)) for task, columns in inits
        ] + self._begun
        self.inits, self._begun = {}, []
        for task in dict.fromkeys(trees.task for trees in begun):
            mine = joined([trees for trees in begun if trees.task == task])
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

    def _ack_frames(self) -> Iterator[Outgoing]:
        if not (self.acks or self._ack_columns or self.fails or self.resets):
            return
        news = [*self._ack_columns, from_pairs(self.acks)]
        roots, vals = fold(
            np.concatenate([roots for roots, _ in news]), np.concatenate([vals for _, vals in news])
        )
        shares = self._shares(roots, vals)
        failed, reset = _by_acker(self.fails, self.ackers), _by_acker(self.resets, self.ackers)
        notes = _notes_by_acker(self._notes, self.ackers)
        self.acks, self.fails, self.resets, self._ack_columns, self._notes = (
            {},
            set(),
            set(),
            [],
            {},
        )
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
        """The columns packed, by acker task."""
        return [
            (roots[rows].tobytes(), vals[rows].tobytes()) for rows in self._rows_by_acker(roots)
        ]

    def _rows_by_acker(self, roots: Ids) -> list[Any]:
        """By acker task, which rows of a column of roots are its own."""
        if self.ackers == 1:
            return [slice(None)]
        owner = roots % np.uint64(self.ackers)
        return [owner == acker for acker in range(self.ackers)]

    def _to_acker(self, acker: int, frame: AckFrame) -> Outgoing:
        return Outgoing(self._acker_topic, acker, self._write(frame))

    def _frames(self, lane: Lane) -> Iterator[Outgoing]:
        rows = lane.take()
        edge = lane.stream, lane.topic
        self.sent[edge] = self.sent.get(edge, 0) + rows.count
        for at in range(0, rows.count, self._max_tuples):
            yield from self._sized(lane, rows.part(at, at + self._max_tuples))

    def _sized(self, lane: Lane, rows: Rows) -> Iterator[Outgoing]:
        """One frame, or two halves of it, and so on, until each fits into a record."""
        try:
            value = encode_tuples(
                TupleFrame(
                    self._format,
                    lane.component,
                    lane.task,
                    lane.stream,
                    rows.count,
                    rows.roots,
                    rows.edges,
                    rows.more,
                    rows.columns,
                    self.by,
                    self.worked,
                    rows.parents,
                ),
                self._write,
            )
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            value, reason = b"", f"cannot be encoded as MessagePack: {error}"
        else:
            if len(value) <= self._max_bytes:
                yield Outgoing(lane.topic, lane.partition, value)
                return
            reason = "is larger than topology_frame_max_bytes"
        if rows.count > 1:
            half = rows.count // 2
            yield from self._sized(lane, rows.part(0, half))
            yield from self._sized(lane, rows.part(half, rows.count))
            return
        pairs = dict(
            zip(unpack_ids(rows.roots), unpack_ids(rows.edges), strict=True)
        ) | rows.more.get(0, {})
        pairs.pop(0, None)
        self.refuse(
            TooLarge(
                lane.component, lane.task, lane.stream, len(value), self._max_bytes, reason, pairs
            )
        )

    def refuse(self, tuple: TooLarge) -> None:
        """Fails the trees of a tuple that cannot be sent."""
        self.fail(tuple.pairs, note_of(tuple.task, tuple.error()) if self.wants_notes else None)
        self.too_large.append(tuple)


class CompletionBox:
    """What the acker tasks of one process tell spout tasks, until it is drained."""

    def __init__(self, topology: Topology) -> None:
        self._format = topology.config.topology_frame_format
        self._write = WRITERS[self._format]
        self.places = {
            task: (topology.completions_topic(spout.id), partition)
            for spout in topology.spouts
            for partition, task in enumerate(topology.task_ids(spout.id))
        }
        """Spout task → topic and partition of its completions."""
        self.acked: dict[int, list[int]] = {}
        """Spout task → roots."""
        self.failed: dict[int, list[int]] = {}
        self.reset: dict[int, list[int]] = {}
        self.notes: dict[int, Note] = {}
        """Root → why it failed, for some of `failed`."""
        self.undeliverable = 0
        """News for tasks that are no spout's: rows from before a change of the topology. They are dropped."""

    def drain(self) -> list[Outgoing]:
        """The completion frames collected since the last call."""
        sends: list[Outgoing] = []
        for task in {*self.acked, *self.failed, *self.reset}:
            news = [box.get(task, []) for box in (self.acked, self.failed, self.reset)]
            if task not in self.places:
                self.undeliverable += sum(map(len, news))
                continue
            topic, partition = self.places[task]
            for at in range(0, max(map(len, news)), _MAX_ROWS):
                acked, failed, reset = (roots[at : at + _MAX_ROWS] for roots in news)
                notes = (
                    {root: self.notes[root] for root in failed if root in self.notes}
                    if self.notes
                    else {}
                )
                frame = CompletionFrame(
                    self._format, 0, pack_ids(acked), pack_ids(failed), pack_ids(reset), notes
                )
                sends.append(Outgoing(topic, partition, self._write(frame)))
        self.acked, self.failed, self.reset, self.notes = {}, {}, {}, {}
        return sends


def ms_between(began: float, ended: float) -> int:
    """Whole milliseconds, at least 1, so that it can be told from what nobody knows."""
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
    """A packed column cut into pieces that fit into a record."""
    return (slice(at, at + 8 * _MAX_ROWS) for at in range(0, length, 8 * _MAX_ROWS))


_MAX_ROWS = 20_000  # roots in one record: 320 kB
