"""Tuples that a bolt has been given and has neither acked nor failed."""

from typing import Final

from kstorm.topology import Tuple, TupleBatch

_FEW: Final = 1000
_MOST: Final = 100_000


class UnackedTuples:
    """Remembers tuples and batches until they are finished or their trees have timed out.

    `secs` is the message timeout. Tuples that a bolt forgot to ack are remembered for at most twice
    as long. If there are too many, at least the last 100,000 are kept. A tuple dropped here just
    waits for its timeout.
    """

    def __init__(self, secs: float) -> None:
        self._secs = secs
        self._older: list[Tuple | TupleBatch] = []
        self._newer: list[Tuple | TupleBatch] = []
        self._turn_at: float | None = None
        self._room = _FEW

    def add(self, one: Tuple | TupleBatch) -> None:
        """Remember a tuple or batch that was executed and is not finished."""
        self._newer.append(one)
        if len(self._newer) > self._room:
            self._newer = [other for other in self._newer if not other.finished]
            if len(self._newer) >= _MOST:
                self._older, self._newer = self._newer, []
            self._room = max(_FEW, 2 * len(self._newer))

    def age(self, now: float) -> None:
        """Rotate the generations once per timeout.

        A tuple is dropped one to two timeouts after it was added.
        """
        if self._turn_at is None or now >= self._turn_at:
            self._turn_at = now + self._secs
            self._older, self._newer = [one for one in self._newer if not one.finished], []

    def take(self) -> list[Tuple | TupleBatch]:
        """Remove and return everything unfinished, oldest first."""
        found = [one for one in (*self._older, *self._newer) if not one.finished]
        self._older, self._newer = [], []
        return found
