"""Decide which windows are due and which tuples they have (Storm's `WindowManager` with its trigger
and eviction policies).

A window ends at a time or with a tuple. Window ends in time are multiples of the slide, independent
of the first tuple's time. A window without tuples is not shown. A window costs only the tuples that
are new or leave it, whatever its length, unless the bolt reads all of its tuples.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from kstorm.errors import FrameError
from kstorm.topology import Tuple
from kstorm.topology.event_time import NEVER
from kstorm.windows.newest import Newest
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_spec import Count, Duration, Extent
from kstorm.windows.window_store import BEFORE_ALL, END, WindowStore, last_key


class Windower(Protocol):
    """The interface between a windowed bolt's executor and its windows."""

    def time_for(self, now: int) -> int:
        """Return the time of a tuple without a time of its own. It is later than all shown windows,
        even if the clock goes back."""

    def is_full_with(self, more: int) -> bool:
        """Return True if `more` tuples complete a window that slides by tuples."""

    def add(self, time: int, tuple: Tuple) -> None: ...

    def due(self, time: int) -> Iterator[Any]:
        """Yield the windows that end at `time` or before, in order. All tuples up to `time` must
        have been added.

        Each window's cleanup runs before the next one is yielded.
        """

    def passed(self, time: int) -> int:
        """Return the time up to which no more windows will end, after `due(time)` was consumed."""

    def stored(self) -> list[Any]:
        """Return the data for `restore`, as a value that can be stored in the state."""

    def restore(self, stored: list[Any]) -> None: ...


class WindowManager:
    """The count and time windows of one task. Times are Unix milliseconds."""

    def __init__(self, kept: WindowStore, length: Extent, slide: Extent) -> None:
        self._kept, self._length, self._slide = kept, length, slide
        self._number = 0
        self._ended = NEVER  # end of the last window
        # Tuples up to this key have been in a window, or were skipped.
        self._shown = BEFORE_ALL
        # Tuples up to this key have been deleted.
        self._front = BEFORE_ALL
        # Number of tuples between `_front` and `_shown`. Only maintained if the length is a number
        # of tuples.
        self._inside = 0
        self._counted = 0  # number of tuples after `_shown`, if windows slide by tuples
        self._newest = (
            Newest(kept, length.tuples, slide.ms)
            if isinstance(length, Count) and isinstance(slide, Duration)
            else None
        )

    def time_for(self, now: int) -> int:
        return max(now, self._ended if isinstance(self._slide, Count) else self._ended + 1)

    def is_full_with(self, more: int) -> bool:
        return isinstance(self._slide, Count) and self._counted + more >= self._slide.tuples

    def add(self, time: int, tuple: Tuple) -> None:
        self._number += 1
        if self._newest is not None:
            self._newest.add(time, self._number, tuple, self._shown)
            return
        self._kept.add(time, self._number, tuple)
        self._counted += 1

    def due(self, time: int) -> Iterator[TupleWindow]:
        if isinstance(self._slide, Count):
            yield from self._by_count(self._slide.tuples, time)
        else:
            yield from self._by_time(self._slide.ms, time)

    def passed(self, time: int) -> int:
        if isinstance(self._slide, Duration):
            return time
        # A window that ends with a tuple ends at the time of one that was not shown yet.
        first = self._kept.next(self._shown)
        return time if first is None else min(time, first.time - 1)

    def stored(self) -> list[Any]:
        return [self._number, self._ended, self._shown, self._front, self._inside, self._counted]

    def restore(self, stored: list[Any]) -> None:
        self._number, self._ended, self._shown, self._front, self._inside, self._counted = stored

    def _by_time(self, slide: int, time: int) -> Iterator[TupleWindow]:
        while (end := self._next_end(slide)) is not None and end <= time:
            before = last_key(end)
            new = 0
            if isinstance(self._length, Count):
                new = sum(1 for _ in self._kept.keys(self._shown, before))
            yield from self._window(end, before, new)
            if self._newest is not None:
                self._newest.ended(end)

    def _next_end(self, slide: int) -> int | None:
        """Return the end of the next window that has a tuple, or None.

        If the length is a number of tuples, the window must have a new tuple.
        """
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
        """Yield the window that ends at `end` with the tuples before `before`. Yield nothing if it
        is empty.

        `new` is the number of tuples that no earlier window had. If the bolt raises, nothing has
        changed, and the window is shown again.
        """
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
        """Return the key of the last of the first `tuples` tuples."""
        if not tuples:
            return self._front
        entry = next(islice(self._kept.between(self._front, END), tuples - 1, None), None)
        assert entry is not None, "there are so many"
        return entry.key


def time_of(given: Any) -> int:
    """Check a tuple's event time. Raises `FrameError` unless it is a whole number of that size."""
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**61:
        raise FrameError(
            f"its time is {given!r}: it must be the Unix time in milliseconds, a whole number from "
            "-2^61 to 2^61"
        )
    return given
