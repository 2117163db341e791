"""Which windows are due, and what is in them (Storm's `WindowManager` with its trigger and eviction policies).

A window ends at a time, or with a tuple. Ends of time are multiples of the slide, whatever the first tuple's time is. A window
without tuples is not shown. What a window costs is the tuples that are new and those that leave it, whatever its length, unless the
bolt reads all of it.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from kstorm.errors import FrameError
from kstorm.topology import Tuple
from kstorm.windows.extents import Count, Duration, Extent
from kstorm.windows.kept import BEFORE_ALL, END, Kept, last_key
from kstorm.windows.watermark import NEVER
from kstorm.windows.window import TupleWindow


class Manager(Protocol):
    """What a windowed bolt's executor needs of it."""

    def time_for(self, now: int) -> int:
        """The time of a tuple that has none of its own: it is in no window that was shown, whatever the clock does."""
        ...

    def is_full_with(self, more: int) -> bool:
        """Whether a window that slides by tuples ends with so many more."""
        ...

    def add(self, time: int, tuple: Tuple) -> None:
        """A tuple."""
        ...

    def due(self, time: int) -> Iterator[Any]:
        """The windows that end up to a time, up to which all tuples are here, one after the other. What is done with each is done
        before the next is asked for."""
        ...

    def stored(self) -> list[Any]:
        """For the state."""
        ...

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        ...


class WindowManager:
    """Of one task. Times are Unix milliseconds."""

    def __init__(self, kept: Kept, length: Extent, slide: Extent) -> None:
        self._kept, self._length, self._slide = kept, length, slide
        self._number = 0
        self._ended = NEVER  # the time of the last window's end
        self._shown = BEFORE_ALL  # the key up to which tuples were in windows, or passed by
        self._front = BEFORE_ALL  # the key up to which none is kept any more
        self._inside = 0  # tuples between both, where the length is a number of them
        self._counted = 0  # tuples behind what was shown

    def time_for(self, now: int) -> int:
        """See `Manager.time_for`."""
        return max(now, self._ended if isinstance(self._slide, Count) else self._ended + 1)

    def is_full_with(self, more: int) -> bool:
        """See `Manager.is_full_with`."""
        return isinstance(self._slide, Count) and self._counted + more >= self._slide.tuples

    def add(self, time: int, tuple: Tuple) -> None:
        """A tuple."""
        self._number += 1
        self._kept.add(time, self._number, tuple)
        self._counted += 1

    def due(self, time: int) -> Iterator[TupleWindow]:
        """See `Manager.due`."""
        if isinstance(self._slide, Count):
            yield from self._by_count(self._slide.tuples, time)
        else:
            yield from self._by_time(self._slide.ms, time)

    def stored(self) -> list[Any]:
        """For the state."""
        return [self._number, self._ended, self._shown, self._front, self._inside, self._counted]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        self._number, self._ended, self._shown, self._front, self._inside, self._counted = stored

    def _by_time(self, slide: int, time: int) -> Iterator[TupleWindow]:
        while (end := self._next_end(slide)) is not None and end <= time:
            before = last_key(end)
            new = 0
            if isinstance(self._length, Count):
                new = sum(1 for _ in self._kept.between(self._shown, before))
            yield from self._window(end, before, new)

    def _next_end(self, slide: int) -> int | None:
        """When the next window ends that has a tuple; None if there is none. Of a number of tuples: that has a new one."""
        if isinstance(self._length, Duration) and self._ended != NEVER:
            end = self._ended + slide
            entry = self._kept.next(max(self._front, last_key(end - self._length.ms)))
            if entry is not None and entry.time <= end:
                return end
        entry = self._kept.next(self._shown)
        return None if entry is None else -(-entry.time // slide) * slide

    def _by_count(self, tuples: int, time: int) -> Iterator[TupleWindow]:
        while self._counted >= tuples:
            last = next(
                islice(self._kept.between(self._shown, last_key(time)), tuples - 1, None), None
            )
            if last is None:
                return
            yield from self._window(last.time, last.key + "\x00", tuples)
            self._counted -= tuples

    def _window(self, end: int, before: str, new: int) -> Iterator[TupleWindow]:
        """The one that ends at this time and before this key; none if it has no tuple. `new`: how many of its tuples no window
        had. What it raises on is shown again: nothing has changed then."""
        kept, shown, front = self._kept, self._shown, self._front
        leaving = 0
        if isinstance(self._length, Count):
            leaving = max(0, self._inside + new - self._length.tuples)
            cut = self._key_behind(leaving)
        else:
            cut = max(front, last_key(end - self._length.ms))
        if next(kept.between(cut, before), None) is not None:
            window = TupleWindow(
                tuples=lambda: kept.tuples(cut, before),
                new=None if cut >= shown else lambda: kept.tuples(shown, before),
                expired=lambda: kept.tuples(front, min(cut, shown) + "\x00"),
                start_timestamp=end - self._length.ms
                if isinstance(self._length, Duration)
                else None,
                end_timestamp=end,
            )
            yield window
            window.pass_by()
        kept.forget(front, cut + "\x00")
        self._inside += new - leaving
        self._shown, self._front, self._ended = before, cut, end

    def _key_behind(self, tuples: int) -> str:
        """Of the last of the first so many."""
        if not tuples:
            return self._front
        entry = next(islice(self._kept.between(self._front, END), tuples - 1, None), None)
        assert entry is not None, "there are so many"
        return entry.key


def time_of(given: Any) -> int:
    """What a tuple says of its time. Raises `FrameError` if that is none."""
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**61:
        raise FrameError(
            f"its time is {given!r}: it must be a whole number, the Unix time in milliseconds"
        )
    return given
