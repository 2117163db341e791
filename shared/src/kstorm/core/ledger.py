"""The acker's ledger: one row a tuple tree, about 20 bytes however large the tree.

The words are those of the paper and of Storm's `Acker`: init, ack, fail, reset timeout. A row holds the XOR of every edge
id created or acked in its tree, and the spout task to tell. When it is 0 and init was seen, the tree is complete.

What makes it safe to keep the ledger across a crash, although XOR is not idempotent and Kafka delivers at least once:

1. *Init counts once.* A second init of a row is ignored. Edge ids are fresh at each emission, so duplicates and
   re-executions can delay a tree, never complete it (the proof is in docs/guarantees.md).
2. *State carries the offset it includes.* Rows live in hash buckets, the unit of what is stored; a bucket skips the
   records that it already contains when the input is replayed.

The order of messages never matters: an ack, a fail or a reset may come before its init.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from struct import pack, unpack_from

from kstorm.core.notes import Note
from kstorm.core.outbox import CompletionBox
from kstorm.core.wire import AckFrame, unpack_ids, unpack_pairs
from kstorm.errors import FrameError

BUCKETS = 32
"""Hash buckets of one acker task. Fixed: it is part of what is stored."""

NO_LOG = bytes(16)
"""The log id where none is known (a simulation)."""

# A row is one int: the XOR in the low 64 bits, so that an ack is a plain `^`, and above it what else there is to know.
_VAL = (1 << 64) - 1
_INIT = 1 << 64
_FAILED = 1 << 65
_GENERATION = 66  # 8 bits
_TASK = 74  # 16 bits
_GENERATIONS = 256
_MOST_NOTES = 10_000
_LIFE = 3  # rotations: between 2 and 3 message timeouts, longer than any spout waits

_HEADER = struct.Struct("<B16sqBI")  # format version, log id, offset included, generation, rows
_FORMAT = 1


class Ledger:
    """The trees of one acker task. Completions go into a `CompletionBox`.

    `log_id` names the incarnation of the input topic: a stored bucket of another one is ignored, since its offsets mean
    nothing here.
    """

    def __init__(self, box: CompletionBox, log_id: bytes = NO_LOG) -> None:
        self._box = box
        self._log_id = log_id
        self._buckets: list[dict[int, int]] = [{} for _ in range(BUCKETS)]
        self._stamps = [-1] * BUCKETS
        self._written = [_EMPTY_ROWS] * BUCKETS
        self._replay_until = -1
        self._generation = 0
        self.applied = -1
        """Offset of the last record applied."""
        self.inits = self.acks = self.completed = self.failed = self.expired = 0
        self.repeated_inits = 0
        """Inits of a row that had one: duplicates kept out by rule 1."""
        self.skipped_records = 0
        """Parts of replayed records that a bucket already contained: kept out by rule 2."""
        self._notes: dict[int, Note] = {}

    def __len__(self) -> int:
        """Open rows."""
        return sum(map(len, self._buckets))

    def apply(self, frame: AckFrame, offset: int) -> None:
        """Applies the record at `offset` of this task's input. Raises `FrameError`, having changed nothing, if it is bad."""
        inits = unpack_pairs(frame.init_roots, frame.init_vals)
        acks = unpack_pairs(frame.roots, frame.vals)
        failed, reset = unpack_ids(frame.failed), unpack_ids(frame.reset)
        if frame.init_roots and frame.task not in self._box.places:
            raise FrameError(
                f"inits of task {frame.task}, which is no spout's: nobody could be told of their trees"
            )
        if offset <= self._replay_until:
            inits, acks = self._fresh_pairs(inits, offset), self._fresh_pairs(acks, offset)
            failed, reset = self._fresh(failed, offset), self._fresh(reset, offset)
        if frame.begins:
            self._apply_beginning(frame.task, offset)
        if frame.notes:
            self._take_notes(frame.notes)
        self._apply_inits(frame.task, inits)
        self._apply_acks(acks)
        self._apply_fails(failed)
        self._apply_resets(reset)
        self.applied = max(self.applied, offset)

    def _apply_beginning(self, task: int, offset: int) -> None:
        """A spout task begins a new life. The trees of the one before need nothing: their rows expire."""

    def _apply_inits(self, task: int, pairs: Iterable[tuple[int, int]]) -> None:
        buckets, fresh = self._buckets, self._generation << _GENERATION
        mark = _INIT | task << _TASK
        count = 0
        for root, val in pairs:
            rows = buckets[root % BUCKETS]
            row = rows.get(root, fresh)
            if row & _INIT:  # rule 1
                self.repeated_inits += 1
                continue
            count += 1
            row = (row ^ val) | mark
            if row & _FAILED:
                self._finish(rows, root, task, self._box.failed)
                self._pass_note(root)
                self.failed += 1
            elif row & _VAL:
                rows[root] = row
            else:
                self._finish(rows, root, task, self._box.acked)
                self.completed += 1
        self.inits += count

    def _apply_acks(self, pairs: Iterable[tuple[int, int]]) -> None:
        buckets, fresh = self._buckets, self._generation << _GENERATION
        acked = self._box.acked
        count = completed = 0
        for root, val in pairs:
            count += 1
            rows = buckets[root % BUCKETS]
            row = rows.get(root, fresh) ^ val
            if row & _VAL or not row & _INIT:
                rows[root] = row
            else:
                completed += 1
                self._finish(rows, root, row >> _TASK, acked)
        self.acks += count
        self.completed += completed

    def _apply_fails(self, roots: Iterable[int]) -> None:
        fresh = self._generation << _GENERATION
        for root in roots:
            rows = self._buckets[root % BUCKETS]
            row = rows.get(root, fresh)
            if row & _INIT:
                self._finish(rows, root, row >> _TASK, self._box.failed)
                self._pass_note(root)
                self.failed += 1
            else:
                rows[root] = row | _FAILED

    def _take_notes(self, notes: Mapping[int, Note]) -> None:
        """Those of trees that end later, or never, make room for newer ones."""
        self._notes.update(notes)
        while len(self._notes) > _MOST_NOTES:
            del self._notes[next(iter(self._notes))]

    def _pass_note(self, root: int) -> None:
        if self._notes and (note := self._notes.pop(root, None)) is not None:
            self._box.notes[root] = note

    def _apply_resets(self, roots: Iterable[int]) -> None:
        for root in roots:
            rows = self._buckets[root % BUCKETS]
            row = (
                rows.get(root, 0) & ~((_GENERATIONS - 1) << _GENERATION)
                | self._generation << _GENERATION
            )
            rows[root] = row
            if row & _INIT:
                self._box.reset.setdefault(row >> _TASK, []).append(root)

    @staticmethod
    def _finish(rows: dict[int, int], root: int, task: int, news: dict[int, list[int]]) -> None:
        rows.pop(root, None)
        told = news.get(task)
        if told is None:
            news[task] = [root]
        else:
            told.append(root)

    def rotate(self) -> None:
        """Ages every row; called once per message timeout. Rows that outlived every spout's patience are dropped: the
        spout's own clock has failed their trees, this is only cleaning."""
        self._generation = (self._generation + 1) % _GENERATIONS
        for number, rows in enumerate(self._buckets):
            kept = {root: row for root, row in rows.items() if self._age(row) < _LIFE}
            self.expired += len(rows) - len(kept)
            self._buckets[number] = kept

    @staticmethod
    def _task(row: int) -> int:
        """The spout task to tell; 0 before the init."""
        return row >> _TASK

    def _age(self, row: int) -> int:
        return (self._generation - (row >> _GENERATION)) % _GENERATIONS

    # What is stored. A tree that began and ended since the last checkpoint leaves no trace.

    def checkpoint(self) -> dict[bytes, bytes]:
        """The buckets whose rows differ from what was last taken, by key; each says up to which record it includes.

        Whatever the rows implied by then must have been delivered before these are written, and these must be written
        before the input is committed past `applied`.
        """
        changed: dict[bytes, bytes] = {}
        for number, rows in enumerate(self._buckets):
            if not rows and self._written[number] == _EMPTY_ROWS:
                continue
            packed = _pack_rows(rows)
            if packed != self._written[number]:
                self._written[number] = packed
                stamp = max(
                    self.applied, self._stamps[number]
                )  # more than `applied` while the input is replayed
                header = _HEADER.pack(_FORMAT, self._log_id, stamp, self._generation, len(rows))
                changed[b"%d" % number] = header + packed
        return changed

    def not_stored(self, taken: Iterable[bytes]) -> None:
        """These buckets were taken by `checkpoint`, and could not be written: the next one takes them again."""
        for key in taken:
            self._written[_bucket_number(key)] = _UNKNOWN

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        """Takes up stored buckets, before the first `apply`. Raises `FrameError` on what is no bucket."""
        for key, value in stored:
            number = _bucket_number(key)
            log_id, stamp, generation, rows = _unpack_bucket(value)
            if log_id != self._log_id:
                continue
            self._stamps[number] = stamp
            self._buckets[number] = {root: self._rejuvenated(row, generation) for root, row in rows}
            self._written[number] = _pack_rows(self._buckets[number])
        self._replay_until = max(self._stamps)

    def _rejuvenated(self, row: int, stored_at: int) -> int:
        """The row with its age as it was when it was stored: time in which no acker ran does not count."""
        age = (stored_at - (row >> _GENERATION)) % _GENERATIONS
        cleared = row & ~((_GENERATIONS - 1) << _GENERATION)
        return cleared | (self._generation - age) % _GENERATIONS << _GENERATION

    def _fresh_pairs(
        self, pairs: Iterable[tuple[int, int]], offset: int
    ) -> Iterator[tuple[int, int]]:
        for root, val in pairs:
            if offset > self._stamps[root % BUCKETS]:  # rule 2
                yield root, val
            else:
                self.skipped_records += 1

    def _fresh(self, roots: Iterable[int], offset: int) -> tuple[int, ...]:
        return tuple(root for root in roots if offset > self._stamps[root % BUCKETS])


def _pack_rows(rows: dict[int, int]) -> bytes:
    """Three columns: roots, XORs, and the upper 32 bits; 20 bytes a row."""
    n = len(rows)
    values = rows.values()
    return (
        pack(f"<{n}Q", *rows)
        + pack(f"<{n}Q", *[row & _VAL for row in values])
        + pack(f"<{n}I", *[row >> 64 for row in values])
    )


_EMPTY_ROWS = b""
_UNKNOWN = b"?"  # no packed rows


def check_bucket(key: bytes, value: bytes | None) -> None:
    """Raises `FrameError` if that is no stored bucket. None is none: a ledger never deletes one."""
    number = _bucket_number(key)
    if value is None:
        raise FrameError(f"a ledger bucket {number} without a value: a ledger deletes none")
    _unpack_bucket(value)


def _bucket_number(key: bytes) -> int:
    if not key.isdigit() or len(key) > 4 or int(key) >= BUCKETS:
        raise FrameError(f"the ledger has no bucket {key!r}: its buckets are 0 to {BUCKETS - 1}")
    return int(key)


def _unpack_bucket(value: bytes) -> tuple[bytes, int, int, Iterator[tuple[int, int]]]:
    try:
        form, log_id, stamp, generation, n = _HEADER.unpack_from(value)
        if form != _FORMAT:
            raise FrameError(f"a ledger bucket of format {form}; this kstorm reads {_FORMAT}")
        if len(value) != _HEADER.size + 20 * n:
            raise FrameError(f"a ledger bucket of {len(value)} bytes that claims {n} rows")
        at = _HEADER.size
        roots = unpack_from(f"<{n}Q", value, at)
        vals = unpack_from(f"<{n}Q", value, at + 8 * n)
        metas = unpack_from(f"<{n}I", value, at + 16 * n)
    except struct.error as error:
        raise FrameError(f"{len(value)} bytes that are no ledger bucket: {error}") from None
    return (
        log_id,
        stamp,
        generation,
        ((r, v | m << 64) for r, v, m in zip(roots, vals, metas, strict=True)),
    )
