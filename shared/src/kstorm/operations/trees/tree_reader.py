"""Find the records of one tree in a topology's topics.

Nearly all records are about other trees. So each record is searched for the bytes of the root, and
decoded only if it contains them.
"""

from collections.abc import Iterator, Mapping, Sequence
from struct import pack
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from kstorm.core.failure_notes import Note
from kstorm.core.origins import Origin, read_origins
from kstorm.core.wire import (
    AckFrame,
    CompletionFrame,
    TupleFrame,
    decode,
    task_of,
    unpack_ids,
    unpack_pairs,
)
from kstorm.errors import FrameError
from kstorm.introspection.outline import Outline

_NOT_TRACED: Final[Sequence[int]] = ()


class TopicRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    """Unix time in ms."""
    value: bytes | None


class RecordPlace(NamedTuple):
    """Position and timestamp of a record."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Sighting(Struct, frozen=True):
    """An occurrence of a tuple of the tree in a frame."""

    edge: int
    stream: str
    source: str
    """Component that emitted it."""
    source_task: int
    target: str
    """Component that receives it."""
    target_task: int
    place: RecordPlace
    row: int
    """Index of the tuple in the frame."""
    by: str
    """Instance that sent it, or empty if the frame does not contain the name."""
    worked: int
    """Milliseconds of work before it was sent."""
    parents: Sequence[int]
    """Edges of the tuples that it is anchored to, or empty if the frame does not contain them."""
    values: Sequence[Any]
    others: Mapping[int, int] = {}
    """Edges of the same tuple in other trees, by root."""


class AckerEntry(Struct, frozen=True):
    """An entry in an acker frame about the tree."""

    kind: str
    """`init`, `ack`, `fail` or `reset`."""
    place: RecordPlace
    val: int = 0
    """Value that is XORed to the tree."""
    task: int = 0
    """Spout task of an init."""
    by: str = ""
    worked: int = 0
    origin: Origin | None = None
    note: Note | None = None


class TreeCompletion(Struct, frozen=True):
    """A completion that the acker sent to the spout."""

    kind: str
    """`acked`, `failed` or `reset`."""
    place: RecordPlace
    note: Note | None = None


class TreeRecords(Struct):
    """Everything found about a tree."""

    root: int
    sightings: list[Sighting] = []
    news: list[AckerEntry] = []
    endings: list[TreeCompletion] = []
    records: int = 0
    """Number of records searched."""
    size: int = 0
    """Bytes of these records."""
    unreadable: int = 0
    """Records that contain the bytes of the root but are not valid frames."""


class TreeReader:
    """Collects the data about one tree from the records of a topology's topics, in any order."""

    def __init__(self, topology: Outline, root: int) -> None:
        self.found = TreeRecords(root)
        self._topology, self._root = topology, root
        self._packed, self._plain = pack("<Q", root), msgspec.msgpack.encode(root)
        self._bolts = {topology.bolt_topic(bolt.id): bolt.id for bolt in topology.bolts}
        self._completions = {topology.completions_topic(spout.id) for spout in topology.spouts}

    def take(self, record: TopicRecord) -> bool:
        """Return True if the record was about the tree."""
        found, value = self.found, record.value
        if value is None:
            return False
        found.records += 1
        found.size += len(value)
        if self._packed not in value and self._plain not in value:
            return False
        try:
            return self._read(record, value)
        except FrameError:
            found.unreadable += 1
            return False

    def _read(self, record: TopicRecord, value: bytes) -> bool:
        found, place = self.found, RecordPlace(*record[:4])
        before = len(found.sightings) + len(found.news) + len(found.endings)
        if record.topic in self._bolts:
            found.sightings += self._sightings(
                decode(TupleFrame, value), self._bolts[record.topic], place
            )
        elif record.topic == self._topology.acker_topic:
            found.news += _acker_entries(decode(AckFrame, value), self._root, place)
        elif record.topic in self._completions:
            found.endings += _completions(decode(CompletionFrame, value), self._root, place)
        return len(found.sightings) + len(found.news) + len(found.endings) > before

    def _sightings(self, frame: TupleFrame, target: str, place: RecordPlace) -> Iterator[Sighting]:
        tasks = self._topology.task_ids(target)
        if place.partition >= len(tasks):
            raise FrameError(
                f"a frame in partition {place.partition} of {place.topic!r}, "
                "which belongs to no task"
            )
        edges, roots = unpack_ids(frame.edges), unpack_ids(frame.roots)
        rows = [(row, edges[row]) for row, root in enumerate(roots) if root == self._root]
        rows += [
            (row, pairs[self._root]) for row, pairs in frame.more.items() if self._root in pairs
        ]
        for row, edge in rows:
            yield Sighting(
                edge,
                frame.stream,
                frame.component,
                task_of(frame, row),
                target,
                tasks[place.partition],
                place,
                row,
                frame.by,
                frame.worked,
                frame.parents.get(row, _NOT_TRACED),
                [column[row] for column in frame.columns],
                {
                    root: edge
                    for root, edge in _roots_of(frame, roots, edges, row)
                    if root != self._root
                },
            )


def _roots_of(
    frame: TupleFrame, roots: Sequence[int], edges: Sequence[int], row: int
) -> Iterator[tuple[int, int]]:
    """Yield root and edge for each tree of a tuple that belongs to several trees."""
    if row in frame.more:
        yield roots[row], edges[row]
        yield from frame.more[row].items()


def _acker_entries(frame: AckFrame, root: int, place: RecordPlace) -> Iterator[AckerEntry]:
    """Yield the entries in the order in which the ledger applies them."""
    inits = unpack_ids(frame.init_roots)
    if root in inits:
        origins = read_origins(frame.origins, len(inits))
        for (begun, val), origin in zip(
            unpack_pairs(frame.init_roots, frame.init_vals), origins, strict=True
        ):
            if begun == root:
                yield AckerEntry("init", place, val, frame.task, frame.by, frame.worked, origin)
    for about, val in unpack_pairs(frame.roots, frame.vals):
        if about == root:
            yield AckerEntry("ack", place, val, by=frame.by, worked=frame.worked)
    if root in unpack_ids(frame.failed):
        yield AckerEntry(
            "fail", place, by=frame.by, worked=frame.worked, note=frame.notes.get(root)
        )
    if root in unpack_ids(frame.reset):
        yield AckerEntry("reset", place, by=frame.by)


def _completions(frame: CompletionFrame, root: int, place: RecordPlace) -> Iterator[TreeCompletion]:
    for kind, column in (("acked", frame.acked), ("failed", frame.failed), ("reset", frame.reset)):
        if root in unpack_ids(column):
            yield TreeCompletion(kind, place, frame.notes.get(root) if kind == "failed" else None)
