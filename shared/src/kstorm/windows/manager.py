"""Which windows are due, and what is in them (Storm's `WindowManager` with its trigger and eviction policies).

A window ends at a time, or with a tuple. Ends of time are multiples of the slide, whatever the first tuple's time is. A window
without tuples is not shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from kstorm.errors import FrameError
from kstorm.topology import Tuple
from kstorm.windows.extents import Count, Duration, Extent
from kstorm.windows.kept import BEFORE_ALL, Entry, Kept, last_key
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
        self._counted = 0  # tuples behind it, where the slide is a number of them and all of them are complete

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
            if self._counted >= self._slide.tuples:
                yield from self._by_count(self._slide.tuples, time)
        else:
            yield from self._by_time(self._slide.ms, time)

    def stored(self) -> list[Any]:
        """For the state."""
        return [self._number, self._ended, self._shown, self._counted]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        self._number, self._ended, self._shown, self._counted = stored

    def _by_time(self, slide: int, time: int) -> Iterator[TupleWindow]:
        while (end := self._next_end(slide)) is not None and end <= time:
            yield from self._window(self._kept.up_to(end), end)

    def _next_end(self, slide: int) -> int | None:
        """When the next window ends that has a tuple; None if there is none. Of a number of tuples: that has a new one."""
        if isinstance(self._length, Duration) and self._ended != NEVER:
            end = self._ended + slide
            entry = self._kept.next(last_key(end - self._length.ms))
            if entry is not None and entry.time <= end:
                return end
        entry = self._kept.next(self._shown)
        return None if entry is None else -(-entry.time // slide) * slide

    def _by_count(self, tuples: int, time: int) -> Iterator[TupleWindow]:
        while True:
            entries = self._kept.up_to(time)
            behind = [place for place, entry in enumerate(entries) if entry.key > self._shown]
            if len(behind) < tuples:
                return
            last = behind[tuples - 1]
            yield from self._window(entries[: last + 1], entries[last].time, entries[last].key)
            self._counted -= tuples

    def _window(self, entries: Sequence[Entry], end: int, shown: str | None = None) -> Iterator[TupleWindow]:
        """The one that ends with these; none if it has no tuple. What it raises on is shown again: nothing has changed then."""
        first = self._first(entries, end)
        inside, outside = entries[first:], entries[:first]
        if inside:
            yield TupleWindow(
                tuples=_tuples(inside),
                new=_tuples(entry for entry in inside if entry.key > self._shown),
                expired=_tuples(entry for entry in outside if entry.key <= self._shown),
                start_timestamp=end - self._length.ms if isinstance(self._length, Duration) else None,
                end_timestamp=end,
            )
        self._kept.forget(outside)
        self._shown, self._ended = shown or last_key(end), end

    def _first(self, entries: Sequence[Entry], end: int) -> int:
        """The place of the first that is in the window."""
        if isinstance(self._length, Count):
            return max(0, len(entries) - self._length.tuples)
        start = end - self._length.ms
        return next((place for place, entry in enumerate(entries) if entry.time > start), len(entries))


def _tuples(entries: Iterable[Entry]) -> list[Tuple]:
    return [entry.tuple for entry in entries]


def time_of(given: Any) -> int:
    """What a tuple says of its time. Raises `FrameError` if that is none."""
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**61:
        raise FrameError(f"its time is {given!r}: it must be a whole number, the Unix time in milliseconds")
    return given
