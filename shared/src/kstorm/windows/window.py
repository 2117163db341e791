"""What a windowed bolt is given (Storm's `TupleWindow`)."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kstorm.topology import Tuple


class TupleWindow(Struct, frozen=True):
    """The tuples of a window, by their time, and of one time as they came. They are done: there is nothing to ack."""

    tuples: Sequence[Tuple]
    """All of them (Storm: `get`)."""
    new: Sequence[Tuple]
    """Those that no window before had (Storm: `getNew`)."""
    expired: Sequence[Tuple]
    """Those of the window before that this one has no longer (Storm: `getExpired`)."""
    start_timestamp: int | None
    """Unix time in milliseconds behind which it begins; None if its length is a number of tuples."""
    end_timestamp: int
    """Unix time in milliseconds up to which it goes."""

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self.tuples)
