"""Windows that store one value per key and pane instead of tuples. A pane is a slice of time, and a
window consists of panes.

A tuple costs one read and one write, however long the windows are. Showing a window reads all of
its panes. For windows of many panes, `chains` reads less.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import islice
from math import gcd
from typing import Any, Final

from msgspec import Struct

from kstorm.topology import KeyValueState, Tuple
from kstorm.topology.event_time import NEVER
from kstorm.windows.sortable_numbers import DIGITS, decode_number, encode_number

_PANES: Final = "w/p/"
_END: Final = "w/p0"  # "0" is the character after "/"
TEXT_AT: Final = len(_PANES) + DIGITS + 1
"""Index in a `pane_key` at which the key's text starts."""

Fold = Callable[[Tuple], tuple[str, Sequence[Any], Any]]
"""Return a tuple's key as text and as values, and the value that the tuple contributes."""
Combine = Callable[[Any, Any], Any]


class PaneWindow(Struct, frozen=True):
    """The values of a window, by key."""

    values: Sequence[tuple[Sequence[Any], Any]]
    """Keys and their values, in the order of the keys' texts."""
    start_timestamp: int
    end_timestamp: int
    rows: int = 1
    """Number of rows that count towards the limit of one execution."""


# size of the cache of pane key prefixes
_PREFIXES: Final = 4096
PIECE: Final = 5000
"""Most keys of a window that are shown together."""
Shown = tuple[str, Sequence[Any], Any]
"""A key as text and as values, and its value in a window."""


class PaneManager:
    """Replaces a `WindowManager` for one task. Times are Unix milliseconds."""

    def __init__(
        self, state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine
    ) -> None:
        self._state, self._length, self._slide, self._fold, self._combine = (
            state,
            length,
            slide,
            fold,
            combine,
        )
        self._size = gcd(length, slide)
        # `_ended` is the end of the last window that was shown completely, `_begun` also counts
        # parts.
        self._ended = self._begun = NEVER
        # last key of the part that was shown last
        self._behind: str | None = None

    def time_for(self, now: int) -> int:
        return max(now, self._begun + 1)

    def is_full_with(self, more: int) -> bool:
        return False

    def add(self, time: int, tuple: Tuple) -> None:
        text, values, value = self._fold(tuple)
        key = pane_key(-(-time // self._size), text)
        there = self._state.get(key)
        self._state.put(
            key, [list(values), value if there is None else self._combine(there[1], value)]
        )

    def due(self, time: int) -> Iterator[PaneWindow]:
        """Yield windows. A window of many keys comes in parts. If the caller stops early, the next
        call continues after the last finished part."""
        while (end := self._end()) is not None and end <= time:
            self._begun = end
            while some := list(islice(self._values(end), PIECE)):
                yield PaneWindow(
                    [(key, total) for _, key, total in some], end - self._length, end, len(some)
                )
                if len(some) < PIECE:
                    break
                until = some[-1][0]
                self._let_go(end, until)
                self._behind = until
            self._let_go(end)
            self._ended, self._behind = end, None

    def passed(self, time: int) -> int:
        return time

    def stored(self) -> list[Any]:
        return [self._ended, self._begun, self._behind]

    def restore(self, stored: list[Any]) -> None:
        self._ended, self._begun, self._behind = stored

    def _end(self) -> int | None:
        """Return the end of a partly shown window, else of the next one."""
        return self._begun if self._begun > self._ended else self._next_end()

    def _next_end(self) -> int | None:
        """Return the end of the next window that has a value, or None."""
        soonest = self._ended + self._slide
        start = (
            _PANES if self._ended == NEVER else pane_key((soonest - self._length) // self._size + 1)
        )
        first = next(self._state.range(start, _END), None)
        if first is None:
            return None
        aligned = -(-pane_of(first[0])[0] * self._size // self._slide) * self._slide
        return aligned if self._ended == NEVER else max(soonest, aligned)

    def _values(self, end: int) -> Iterator[Shown]:
        """Yield the values that are still to be shown of the window ending at `end`."""
        first, last = (end - self._length) // self._size + 1, end // self._size
        panes = [
            self._state.range(self._start(pane), pane_key(pane + 1))
            for pane in range(first, last + 1)
        ]
        current: str | None = None
        values: Sequence[Any] = ()
        total: Any = None
        for key, (found, value) in merge(*panes, key=_text) if len(panes) > 1 else panes[0]:
            text = _text((key, None))
            if text == current:
                total = self._combine(total, value)
                continue
            if current is not None:
                yield current, values, total
            current, values, total = text, found, value
        if current is not None:
            yield current, values, total

    def _let_go(self, end: int, until: str | None = None) -> None:
        """Delete values that no window after the one ending at `end` needs, for the keys up to
        `until` or for all keys."""
        # Also check the panes before: tuples may since have arrived in a gap between two windows.
        ended = self._ended + min(0, self._slide - self._length)
        first = NEVER if self._ended == NEVER else ended // self._size + 1
        for pane in list(self._there(first, (end + self._slide - self._length) // self._size)):
            before = pane_key(pane + 1) if until is None else pane_key(pane, until) + "\x00"
            for key in [key for key, _ in self._state.range(self._start(pane), before)]:
                self._state.discard(key)

    def _start(self, pane: int) -> str:
        """Return the first key of a pane that is still to be shown."""
        return pane_key(pane) if self._behind is None else pane_key(pane, self._behind) + "\x00"

    def _there(self, first: int, last: int) -> Iterator[int]:
        """Yield the panes from `first` to `last` that have a value."""
        while (
            found := next(self._state.range(pane_key(first), pane_key(last + 1)), None)
        ) is not None:
            pane, _ = pane_of(found[0])
            yield pane
            first = pane + 1


def pane_key(pane: int, text: str = "") -> str:
    """Return the state key of a key's value in a pane. Without a text it sorts before the whole
    pane."""
    return f"{_prefix(pane)}/{text}" if text else _prefix(pane)


@lru_cache(_PREFIXES)
def _prefix(pane: int) -> str:
    return f"{_PANES}{encode_number(pane)}"


def pane_of(key: str) -> tuple[int, str]:
    """Return the pane and the key's text."""
    return decode_number(key[len(_PANES) : TEXT_AT - 1]), key[TEXT_AT:]


def _text(pair: tuple[str, Any]) -> str:
    return pair[0][TEXT_AT:]
