"""What a windowed bolt is given (Storm's `TupleWindow`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kstorm.topology import Tuple

Read = Callable[[], Iterator[Tuple]]
"""Reads tuples from where they are kept, by their order."""
Part = Sequence[Tuple] | Read


class TupleWindow:
    """The tuples of a window, by their time, and of one time as they came. They are done: there is nothing to ack.

    They are read from the state when they are asked for: a bolt that looks at `new` and `expired` alone pays for no others, and
    one that iterates over the window has one at a time in memory.
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
        """`new`: None stands for all of them."""
        self._parts: dict[str, Part] = {
            "tuples": tuples,
            "new": tuples if new is None else new,
            "expired": expired,
        }
        self._is_new = new is None
        self.start_timestamp = start_timestamp
        """Unix time in milliseconds behind which it begins; of a session, its first tuple's; None if its length is a number of
        tuples."""
        self.end_timestamp = end_timestamp
        """Unix time in milliseconds up to which it goes: of a session, its last tuple's."""
        self.key = tuple(key)
        """Of a session, the values of the fields that it is of; else ()."""

    @property
    def tuples(self) -> Sequence[Tuple]:
        """All of them (Storm: `get`)."""
        return self._all("tuples")

    @property
    def new(self) -> Sequence[Tuple]:
        """Those that no window before had (Storm: `getNew`)."""
        return self._all("tuples" if self._is_new else "new")

    @property
    def expired(self) -> Sequence[Tuple]:
        """Those of the window before that this one has no longer (Storm: `getExpired`)."""
        return self._all("expired")

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[Tuple]:
        """One by one from the state, unless they were read (Storm: `getIter`)."""
        part = self._parts["tuples"]
        return part() if callable(part) else iter(part)

    def pass_by(self) -> None:
        """What was not read can be read no more."""
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
        "the window has passed by: read its tuples in execute, and keep what is needed of them"
    )
