"""A task's unfinished tuples, and their storage in its changelog.

Two kinds of tuples before the committed offset are unfinished:

* *Held* tuples were executed and neither acked nor failed, as by a join.
* *Waiting* tuples will be retried. Their failed execution has no effect.

For each input frame with such tuples, the task's changelog has one pair. The transaction that
commits the offset after the frame writes it.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Annotated, Final

import msgspec

from kstorm.core.exactly_once.located_tuples import LocatedBatch, LocatedTuple
from kstorm.core.task_state import check_pair
from kstorm.errors import FrameError

Pair = tuple[bytes, bytes | None]

MARK: Final = b"\xff"
"""First byte of the keys of these pairs. It never occurs in UTF-8, so it differs from all keys of a
state and sorts after them."""


class UnfinishedTuple(msgspec.Struct, array_like=True, frozen=True):
    """One unfinished tuple."""

    row: Annotated[int, msgspec.Meta(ge=0)]
    attempts: Annotated[int, msgspec.Meta(ge=0)]
    waits: bool
    """True if it must be executed in full. False if it was executed and its emits were sent."""
    ack_val: int
    """The same as `Tuple.ack_val`."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[UnfinishedTuple]).decode


def is_unfinished_key(key: bytes) -> bool:
    """Return True if a changelog pair stores unfinished tuples and is not a pair of the state."""
    return key.startswith(MARK)


def read_pair(key: bytes, value: bytes) -> tuple[int, list[UnfinishedTuple]]:
    """Return the offset of a frame and its unfinished tuples.

    Raises `FrameError` if kstorm did not write the pair.
    """
    if len(key) != 9:
        raise FrameError(
            f"a key of {len(key)} bytes starts like the key of an offset, which has 9 bytes"
        )
    try:
        return int.from_bytes(key[1:], "big"), _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"{len(value)} bytes are not a list of tuples: {error}") from None


def check_changelog_pair(key: bytes, value: bytes | None) -> None:
    """Raise `FrameError` if the pair is neither from a state nor about unfinished tuples."""
    if not is_unfinished_key(key):
        check_pair(key, value)
    elif value is not None:
        read_pair(key, value)


class UnfinishedTuples:
    """The unfinished tuples of one task."""

    def __init__(self, written: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """`written`: the pairs stored by the previous owner."""
        self._tuples: list[LocatedTuple] = []  # executed since the last cut
        self._batches: list[LocatedBatch] = []  # executed and held
        self._open: list[LocatedTuple] = []
        self._waiting: list[tuple[float, int, LocatedTuple]] = []
        self._numbers = count()
        self._written: dict[bytes, bytes] = dict(written)
        self._seen: set[tuple[int, int]] = set()  # offset and row of tuples that were held
        self._named: set[tuple[int, int]] = set()

    def watch(self, tuples: Iterable[LocatedTuple]) -> None:
        """Track tuples that are being executed."""
        self._tuples += tuples

    def watch_batch(self, batch: LocatedBatch) -> None:
        """Track an executed batch."""
        if not batch.finished:
            self._batches.append(batch)

    def wait(self, tuple: LocatedTuple, due: float) -> None:
        """Schedule a tuple for a retry at `due`."""
        heapq.heappush(self._waiting, (due, next(self._numbers), tuple))

    def is_due(self, now: float) -> bool:
        return bool(self._waiting) and self._waiting[0][0] <= now

    def take_due(self, now: float) -> list[LocatedTuple]:
        """Remove and return the tuples due for retry.

        The caller tracks them again when it executes them.
        """
        due = []
        while self.is_due(now):
            due.append(heapq.heappop(self._waiting)[2])
        return due

    def held_again(self) -> list[LocatedTuple]:
        """Return the tuples that are held and were held at the last call. Each is returned once."""
        self._gather()
        held = {(tuple.offset, tuple.row): tuple for tuple, _ in self._held()}
        again = [at for at in held if at in self._seen and at not in self._named]
        self._seen, self._named = set(held), {*self._named, *again} & held.keys()
        return [held[at] for at in again]

    def tracked(self) -> Iterator[LocatedTuple]:
        """Yield the tuples that are held or were executed since the last cut."""
        yield from self._open
        yield from self._tuples
        for batch in self._batches:
            yield from batch.tuples()

    @property
    def waiting(self) -> int:
        """Number of tuples that wait for a retry."""
        return len(self._waiting)

    @property
    def changed(self) -> bool:
        """True if there may be anything to write."""
        return bool(self._tuples or self._batches or self._open or self._waiting or self._written)

    def first_offset(self, exact: bool) -> int | None:
        """Return the offset of the first frame with an unfinished tuple, or None.

        If not `exact`, it also includes the tuples of finished executions since the last cut, which
        takes no search.
        """
        waiting = [tuple.offset for _, _, tuple in self._waiting]
        if not exact:
            waiting += [tuple.offset for tuple in self._open]
            waiting += [batch.offset for batch in self._batches]
            waiting += [tuple.offset for tuple in self._tuples[:1]]
        return min(waiting, default=None)

    def changes(self) -> Sequence[Pair]:
        """Return the difference from the last written state, and mark it as written."""
        if not self.changed:
            return ()
        self._gather()
        left: dict[bytes, list[UnfinishedTuple]] = {}
        for tuple, ack_val in self._held():
            left.setdefault(_key(tuple), []).append(
                UnfinishedTuple(tuple.row, tuple.attempts, False, ack_val)
            )
        for _, _, tuple in self._waiting:
            left.setdefault(_key(tuple), []).append(
                UnfinishedTuple(tuple.row, tuple.attempts, True, tuple.ack_val)
            )
        now = {key: _encode(sorted(rows, key=lambda one: one.row)) for key, rows in left.items()}
        before, self._written = self._written, now
        changed: list[Pair] = [
            (key, value) for key, value in now.items() if before.get(key) != value
        ]
        return [*changed, *((key, None) for key in before if key not in now)]

    def _gather(self) -> None:
        self._open = [tuple for tuple in (*self._open, *self._tuples) if not tuple.finished]
        self._batches = [batch for batch in self._batches if batch.unfinished()]
        self._tuples = []

    def _held(self) -> Iterator[tuple[LocatedTuple, int]]:
        """Yield the held tuples, each with the XOR of its emitted edges."""
        for tuple in self._open:
            yield tuple, tuple.ack_val
        for batch in self._batches:
            for tuple in batch.unfinished():
                yield tuple, batch.ack_val_at(tuple.row)


def _key(tuple: LocatedTuple) -> bytes:
    return MARK + tuple.offset.to_bytes(8, "big")
