"""The acker's ledger: one row per tuple tree, with about 20 bytes regardless of the size of the
tree.

The algorithm and its words are those of Storm's acker (the paper and `Acker.java`): init, ack,
fail, reset timeout. Every tuple of a tree has a random 64-bit id, its *edge id*. An edge id enters
the tree's row twice by XOR: when the tuple is emitted, and when the bolt that received it acks it.

* Init: the spout sends the XOR of its first edges.
* Ack: a bolt sends the acked edge, XORed with the edges of the tuples that it anchored to it.

A row holds the XOR of all edge ids created or acked so far, and the spout task that waits for the
tree. When the XOR is 0 and the init has been applied, every edge was acked: the tree is complete.

XOR is not idempotent, and Kafka delivers at least once. Two rules make it safe to keep the ledger
across a crash:

1. *Init counts once.* A second init of a row is ignored. Edge ids are fresh at each emission, so
   duplicates and re-executions can delay a tree but never complete it (docs/concepts/why-it-holds.md has the
   proof).
2. *State carries the offset it includes.* Rows live in hash buckets, and a bucket is the unit of
   storage. When the input is replayed, a bucket skips the records that it already contains.

The order of messages does not matter: an ack, a fail or a reset may arrive before its init.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from struct import pack, unpack_from

from kstorm.core.completion_box import CompletionBox
from kstorm.core.failure_notes import Note
from kstorm.core.wire import AckFrame, unpack_ids, unpack_pairs
from kstorm.errors import FrameError

BUCKETS = 32
"""Hash buckets of one acker task. The number is part of the storage format and must not change."""

NO_LOG = bytes(16)
"""Log id for an input topic without one (a simulation)."""

# A row is one int. The XOR is in the low 64 bits, so that applying an ack is a plain `^`.
# The flags, the generation and the spout task are above it.
_VAL = (1 << 64) - 1  # `row & _VAL`: the XOR is not 0, so some edge is still unacked
_INIT = 1 << 64  # `row & _INIT`: the init was applied, so the row includes the spout's first edges
_FAILED = 1 << 65  # `row & _FAILED`: a fail arrived before the init
_GENERATION = 66  # 8 bits: the rotation in which the row was created or reset
_TASK = 74  # 16 bits: the spout task that waits for the tree
_GENERATIONS = 256
_MOST_NOTES = 10_000
# Rotations that a row survives: between 2 and 3 message timeouts, longer than any spout waits.
_LIFE = 3

_HEADER = struct.Struct("<B16sqBI")  # format version, log id, offset included, generation, rows
_FORMAT = 1


class Ledger:
    """The tree rows of one acker task. Completions go into a `CompletionBox`.

    `log_id` identifies the incarnation of the input topic. Stored buckets of another incarnation
    are ignored, because their offsets are meaningless in this one.
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
        """Duplicate inits ignored by rule 1."""
        self.skipped_records = 0
        """Parts of replayed records that a bucket already contained, skipped by rule 2."""
        self._notes: dict[int, Note] = {}

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def apply(self, frame: AckFrame, offset: int) -> None:
        """Apply the record at `offset` of this task's input.

        Raises `FrameError`, with nothing changed, if the record is invalid.
        """
        inits = unpack_pairs(frame.init_roots, frame.init_vals)
        acks = unpack_pairs(frame.roots, frame.vals)
        failed, reset = unpack_ids(frame.failed), unpack_ids(frame.reset)
        if frame.init_roots and frame.task not in self._box.places:
            raise FrameError(
                f"inits have task {frame.task}, which is not a spout task: completions of their "
                "trees would have no receiver"
            )
        if offset <= self._replay_until:
            # Rule 2: the record is replayed, and some restored bucket may already include it.
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
        """Handle the start of a new run of a spout task. Trees of its earlier run simply expire."""

    def _apply_inits(self, task: int, pairs: Iterable[tuple[int, int]]) -> None:
        buckets, fresh = self._buckets, self._generation << _GENERATION
        mark = _INIT | task << _TASK
        count = 0
        # `val` is the XOR of the edges that the spout created for this root.
        for root, val in pairs:
            rows = buckets[root % BUCKETS]
            row = rows.get(root, fresh)
            is_duplicate = row & _INIT
            if is_duplicate:
                # Rule 1: an init counts once.
                self.repeated_inits += 1
                continue
            count += 1
            row = (row ^ val) | mark
            failed_before_init = row & _FAILED
            has_unacked_edges = row & _VAL
            if failed_before_init:
                self._finish(rows, root, task, self._box.failed)
                self._pass_note(root)
                self.failed += 1
            elif has_unacked_edges:
                rows[root] = row
            else:
                # Complete: the acks of every edge arrived before the init.
                self._finish(rows, root, task, self._box.acked)
                self.completed += 1
        self.inits += count

    def _apply_acks(self, pairs: Iterable[tuple[int, int]]) -> None:
        buckets, fresh = self._buckets, self._generation << _GENERATION
        acked = self._box.acked
        count = completed = 0
        # `val` is the XOR of acked edges and of the edges created by their executions.
        for root, val in pairs:
            count += 1
            rows = buckets[root % BUCKETS]
            row = rows.get(root, fresh) ^ val
            has_unacked_edges = row & _VAL
            if has_unacked_edges or not row & _INIT:
                # Without the init, the spout's first edges are not in the XOR yet.
                rows[root] = row
            else:
                # Complete: the XOR is 0 and includes the init, so every edge was acked.
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
                # The spout task is unknown until the init arrives.
                rows[root] = row | _FAILED

    def _take_notes(self, notes: Mapping[int, Note]) -> None:
        """Store the notes of failed trees, and drop the oldest ones beyond the limit."""
        self._notes.update(notes)
        while len(self._notes) > _MOST_NOTES:
            del self._notes[next(iter(self._notes))]

    def _pass_note(self, root: int) -> None:
        if self._notes and (note := self._notes.pop(root, None)) is not None:
            self._box.notes[root] = note

    def _apply_resets(self, roots: Iterable[int]) -> None:
        for root in roots:
            rows = self._buckets[root % BUCKETS]
            if (known := rows.get(root)) is None:
                # The tree has ended, or its init is still to come: there is no age to reset.
                continue
            # The row gets the current generation: its age is 0 again.
            row = known & ~((_GENERATIONS - 1) << _GENERATION) | self._generation << _GENERATION
            rows[root] = row
            if row & _INIT:
                # The spout task is known, so its own clock for the tree can restart too.
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
        """Age every row by one generation, and drop expired rows. Called once per message timeout.

        This only frees memory, because the spout has already failed these trees by its own clock.
        """
        self._generation = (self._generation + 1) % _GENERATIONS
        for number, rows in enumerate(self._buckets):
            kept = {root: row for root, row in rows.items() if self._age(row) < _LIFE}
            self.expired += len(rows) - len(kept)
            self._buckets[number] = kept

    @staticmethod
    def _task(row: int) -> int:
        """Return the spout task that waits for the tree, or 0 before the init."""
        return row >> _TASK

    def _age(self, row: int) -> int:
        return (self._generation - (row >> _GENERATION)) % _GENERATIONS

    # Storage. A tree that began and ended since the last checkpoint is not stored at all.

    def checkpoint(self) -> dict[bytes, bytes]:
        """Return the changed buckets by key. Each contains the offset that it includes.

        Every completion that the rows imply so far must be delivered before the buckets are
        written. The buckets must be written before the input is committed past `applied`.
        """
        changed: dict[bytes, bytes] = {}
        for number, rows in enumerate(self._buckets):
            if not rows and self._written[number] == _EMPTY_ROWS:
                # Empty then and now, so there is nothing to pack and compare.
                continue
            packed = _pack_rows(rows)
            if packed != self._written[number]:
                self._written[number] = packed
                # While the input is replayed, a restored bucket includes more than `applied`.
                stamp = max(self.applied, self._stamps[number])
                header = _HEADER.pack(_FORMAT, self._log_id, stamp, self._generation, len(rows))
                changed[b"%d" % number] = header + packed
        return changed

    def not_stored(self, taken: Iterable[bytes]) -> None:
        """Mark buckets as not written after all, so that the next checkpoint takes them again."""
        for key in taken:
            self._written[_bucket_number(key)] = _UNKNOWN

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        """Load stored buckets, before the first `apply`. Raises `FrameError` if one is invalid."""
        for key, value in stored:
            number = _bucket_number(key)
            log_id, stamp, generation, rows = _unpack_bucket(value)
            if log_id != self._log_id:
                # The topic was recreated: the bucket's offset means nothing in the new log.
                continue
            self._stamps[number] = stamp
            self._buckets[number] = {root: self._rejuvenated(row, generation) for root, row in rows}
            self._written[number] = _pack_rows(self._buckets[number])
        self._replay_until = max(self._stamps)

    def _rejuvenated(self, row: int, stored_at: int) -> int:
        """Return the row with its age at storage time: a row does not age without an acker."""
        age = (stored_at - (row >> _GENERATION)) % _GENERATIONS
        cleared = row & ~((_GENERATIONS - 1) << _GENERATION)
        return cleared | (self._generation - age) % _GENERATIONS << _GENERATION

    def _fresh_pairs(
        self, pairs: Iterable[tuple[int, int]], offset: int
    ) -> Iterator[tuple[int, int]]:
        for root, val in pairs:
            if offset > self._stamps[root % BUCKETS]:
                # Rule 2: the bucket does not include this record yet.
                yield root, val
            else:
                self.skipped_records += 1

    def _fresh(self, roots: Iterable[int], offset: int) -> tuple[int, ...]:
        return tuple(root for root in roots if offset > self._stamps[root % BUCKETS])


def _pack_rows(rows: dict[int, int]) -> bytes:
    """Pack rows as three columns: roots, XORs and the upper 32 bits. This takes 20 bytes per row."""
    n = len(rows)
    values = rows.values()
    return (
        pack(f"<{n}Q", *rows)
        + pack(f"<{n}Q", *[row & _VAL for row in values])
        + pack(f"<{n}I", *[row >> 64 for row in values])
    )


_EMPTY_ROWS = b""
# Never equal to packed rows (20 bytes each), so the bucket counts as changed.
_UNKNOWN = b"?"


def check_bucket(key: bytes, value: bytes | None) -> None:
    """Raise `FrameError` if this is not a stored bucket. A ledger never deletes one."""
    number = _bucket_number(key)
    if value is None:
        raise FrameError(
            f"the ledger bucket {number} has no value: a ledger never deletes a bucket"
        )
    _unpack_bucket(value)


def _bucket_number(key: bytes) -> int:
    if not key.isdigit() or len(key) > 4 or int(key) >= BUCKETS:
        raise FrameError(f"the ledger has no bucket {key!r}: its buckets are 0 to {BUCKETS - 1}")
    return int(key)


def _unpack_bucket(value: bytes) -> tuple[bytes, int, int, Iterator[tuple[int, int]]]:
    try:
        form, log_id, stamp, generation, n = _HEADER.unpack_from(value)
        if form != _FORMAT:
            raise FrameError(f"a ledger bucket has format {form}, but this release reads {_FORMAT}")
        if len(value) != _HEADER.size + 20 * n:
            raise FrameError(f"a ledger bucket has {len(value)} bytes, but claims to have {n} rows")
        at = _HEADER.size
        roots = unpack_from(f"<{n}Q", value, at)
        vals = unpack_from(f"<{n}Q", value, at + 8 * n)
        metas = unpack_from(f"<{n}I", value, at + 16 * n)
    except struct.error as error:
        raise FrameError(f"{len(value)} bytes are not a ledger bucket: {error}") from None
    return (
        log_id,
        stamp,
        generation,
        ((r, v | m << 64) for r, v, m in zip(roots, vals, metas, strict=True)),
    )
