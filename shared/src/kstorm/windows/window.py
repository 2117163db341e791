"""The window that a windowed bolt receives (Storm's `TupleWindow`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kstorm.topology import Tuple

Read = Callable[[], Iterator[Tuple]]
"""Read tuples from the state, in order."""
Part = Sequence[Tuple] | Read


class TupleWindow:
    """The tuples of a window, by time and then in order of arrival. They are already acked.

    Tuples are read from the state on demand. A bolt that only uses `new` and `expired` pays for no
    others. A bolt that iterates over the window has one tuple at a time in memory.
    """

    def __init__(
        self,
        tuples: Part,
        new: Part | None = None,
        expired: Part = (),
        start_timestamp: int | None = None,
        end_timestamp: int = 0,
        key: Sequence[Any] = (),
    ) -> None:
        """`new` defaults to all tuples."""
        self._parts: dict[str, Part] = {
            "tuples": tuples,
            "new": tuples if new is None else new,
            "expired": expired,
        }
        self._is_new = new is None
        self.start_timestamp = start_timestamp
        """Unix milliseconds after which the window starts. For a session, the time of its first
        tuple. None if the length is a number of tuples."""
        self.end_timestamp = end_timestamp
        """Unix milliseconds up to which the window goes, inclusive. For a session, the time of its
        last tuple."""
        self.key = tuple(key)
        """Values of a session's key fields. () for other windows."""

    @property
    def tuples(self) -> Sequence[Tuple]:
        """Return all tuples of the window (Storm's `get`)."""
        return self._all("tuples")

    @property
    def new(self) -> Sequence[Tuple]:
        """Return the tuples that no earlier window had (Storm's `getNew`)."""
        return self._all("tuples" if self._is_new else "new")

    @property
    def expired(self) -> Sequence[Tuple]:
        """Return the tuples of the previous window that are not in this one (Storm's
        `getExpired`)."""
        return self._all("expired")

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[Tuple]:
        """Iterate over the tuples, from the state unless they have been read (Storm's
        `getIter`)."""
        part = self._parts["tuples"]
        return part() if callable(part) else iter(part)

    def pass_by(self) -> None:
        """Invalidate the parts that were not read. Reading them now raises `RuntimeError`."""
        for name, part in self._parts.items():
            if callable(part):
                self._parts[name] = _gone

    def _all(self, name: str) -> Sequence[Tuple]:
        part = self._parts[name]
        if callable(part):
            part = self._parts[name] = list(part())
        return part


def _gone() -> Iterator[Tuple]:
    raise RuntimeError(
        "the window has already been executed: read its tuples in execute, and keep the values "
        "that you need"
    )
