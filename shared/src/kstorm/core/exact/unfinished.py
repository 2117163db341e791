"""What a task has begun and not finished, and how that is written down.

Two kinds of tuples are not finished behind the offset that is committed: *held* ones, which were executed and neither acked nor
failed (a join holds them), and those that *wait* to be tried again, of whose execution nothing is left. For each frame of the
input with such tuples one pair is kept in the task's changelog, in the transaction that commits the offset behind them.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Annotated, Final

import msgspec

from kstorm.core.exact.tuples import LocatedBatch, LocatedTuple
from kstorm.core.state import check_pair
from kstorm.errors import FrameError

Pair = tuple[bytes, bytes | None]

MARK: Final = b"\xff"
"""How the keys of these pairs begin. No UTF-8 begins so, as keys of a state do, and they come after those."""


class Left(msgspec.Struct, array_like=True, frozen=True):
    """One tuple that is not finished."""

    row: Annotated[int, msgspec.Meta(ge=0)]
    attempts: Annotated[int, msgspec.Meta(ge=0)]
    waits: bool
    """Whether it is to be executed in full; else it was executed, and what that emitted was sent."""
    ack_val: int
    """See `Tuple.ack_val`."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Left]).decode


def is_unfinished_key(key: bytes) -> bool:
    """Whether a pair of a task's changelog is about tuples that are not finished, and not one of its state."""
    return key.startswith(MARK)


def read_pair(key: bytes, value: bytes) -> tuple[int, list[Left]]:
    """The offset of a frame, and its tuples that are not finished. Raises `FrameError` if none of ours has written that."""
    if len(key) != 9:
        raise FrameError(
            f"a key of {len(key)} bytes that begins like an offset's: such a key has 9"
        )
    try:
        return int.from_bytes(key[1:], "big"), _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"{len(value)} bytes that are no list of tuples: {error}") from None


def check_row(key: bytes, value: bytes | None) -> None:
    """Raises `FrameError` if that is no pair of an exactly-once task's changelog: neither of its state nor of these."""
    if not is_unfinished_key(key):
        check_pair(key, value)
    elif value is not None:
        read_pair(key, value)


class Unfinished:
    """The tuples of one task that are not finished."""

    def __init__(self, written: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """`written`: the pairs that a former owner has left."""
        self._tuples: list[LocatedTuple] = []  # executed since the last cut
        self._batches: list[LocatedBatch] = []  # those that are held
        self._open: list[LocatedTuple] = []
        self._waiting: list[tuple[float, int, LocatedTuple]] = []
        self._numbers = count()
        self._written: dict[bytes, bytes] = dict(written)

    def watch(self, tuples: Iterable[LocatedTuple]) -> None:
        """Tuples that are being executed."""
        self._tuples += tuples

    def watch_batch(self, batch: LocatedBatch) -> None:
        """A batch that was executed."""
        if not batch.finished:
            self._batches.append(batch)

    def wait(self, tuple: LocatedTuple, due: float) -> None:
        """A tuple is to be tried again at a time."""
        heapq.heappush(self._waiting, (due, next(self._numbers), tuple))

    def is_due(self, now: float) -> bool:
        """Whether one is to be tried again now."""
        return bool(self._waiting) and self._waiting[0][0] <= now

    def take_due(self, now: float) -> list[LocatedTuple]:
        """Those that are to be tried again now; they are watched from here on."""
        due = []
        while self.is_due(now):
            due.append(heapq.heappop(self._waiting)[2])
        return due

    @property
    def waiting(self) -> int:
        """How many wait to be tried again."""
        return len(self._waiting)

    @property
    def changed(self) -> bool:
        """Whether there may be anything to write."""
        return bool(self._tuples or self._batches or self._open or self._waiting or self._written)

    def changes(self) -> Sequence[Pair]:
        """What differs from what was last written; from now on it counts as written."""
        if not self.changed:
            return ()
        self._gather()
        left: dict[bytes, list[Left]] = {}
        for tuple, ack_val in self._held():
            left.setdefault(_key(tuple), []).append(Left(tuple.row, tuple.attempts, False, ack_val))
        for _, _, tuple in self._waiting:
            left.setdefault(_key(tuple), []).append(
                Left(tuple.row, tuple.attempts, True, tuple.ack_val)
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
        """The tuples that are held, with what hangs on each."""
        for tuple in self._open:
            yield tuple, tuple.ack_val
        for batch in self._batches:
            for tuple in batch.unfinished():
                yield tuple, batch.ack_val_at(tuple.row)


def _key(tuple: LocatedTuple) -> bytes:
    return MARK + tuple.offset.to_bytes(8, "big")
