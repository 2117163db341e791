"""Windows that keep a value for each key in place of tuples: one for each pane of time, and a window is some panes.

A tuple costs one value read and one written, however long the windows are. A window is read pane by pane as it is shown; where it
has many, `chains` has less to read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from math import gcd
from typing import Any, Final

from msgspec import Struct

from kstorm.topology import KeyValueState, Tuple
from kstorm.windows.ordering import DIGITS, number_of, text_of
from kstorm.windows.watermark import NEVER

_PANES: Final = "w/p/"
_END: Final = "w/p0"  # "0" is the character behind "/"

Fold = Callable[[Tuple], tuple[str, Sequence[Any], Any]]
"""Of a tuple its key, as a text and as values, and the value that it makes."""
Combine = Callable[[Any, Any], Any]


class PaneWindow(Struct, frozen=True):
    """The values of a window, by their keys."""

    values: Iterable[tuple[Sequence[Any], Any]]
    """Read as they are asked for, in the order of the keys' texts."""
    start_timestamp: int
    end_timestamp: int


class PaneManager:
    """Of one task, in the place of a `WindowManager`. Times are Unix milliseconds."""

    def __init__(self, state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine) -> None:
        self._state, self._length, self._slide, self._fold, self._combine = state, length, slide, fold, combine
        self._size = gcd(length, slide)
        self._ended = NEVER

    def time_for(self, now: int) -> int:
        """See `Manager.time_for`."""
        return max(now, self._ended + 1)

    def is_full_with(self, more: int) -> bool:
        """These windows end by time."""
        return False

    def add(self, time: int, tuple: Tuple) -> None:
        """A tuple."""
        text, values, value = self._fold(tuple)
        key = pane_key(-(-time // self._size), text)
        there = self._state.get(key)
        self._state.put(key, [list(values), value if there is None else self._combine(there[1], value)])

    def due(self, time: int) -> Iterator[PaneWindow]:
        """See `Manager.due`."""
        while (end := self._next_end()) is not None and end <= time:
            yield PaneWindow(self._values(end), end - self._length, end)
            self._pass_by(end)
            self._ended = end

    def stored(self) -> list[Any]:
        """For the state."""
        return [self._ended]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        (self._ended,) = stored

    def _next_end(self) -> int | None:
        """When the next window ends that has a value; None if there is none."""
        soonest = self._ended + self._slide
        start = _PANES if self._ended == NEVER else pane_key((soonest - self._length) // self._size + 1)
        first = next(self._state.range(start, _END), None)
        if first is None:
            return None
        aligned = -(-pane_of(first[0])[0] * self._size // self._slide) * self._slide
        return aligned if self._ended == NEVER else max(soonest, aligned)

    def _values(self, end: int) -> Iterator[tuple[Sequence[Any], Any]]:
        """Of the window that ends then."""
        first, last = (end - self._length) // self._size + 1, end // self._size
        panes = [self._state.range(pane_key(pane), pane_key(pane + 1)) for pane in range(first, last + 1)]
        current: str | None = None
        values: Sequence[Any] = ()
        total: Any = None
        for key, (found, value) in merge(*panes, key=_text) if len(panes) > 1 else panes[0]:
            text = _text((key, None))
            if text == current:
                total = self._combine(total, value)
                continue
            if current is not None:
                yield values, total
            current, values, total = text, found, value
        if current is not None:
            yield values, total

    def _pass_by(self, end: int) -> None:
        """Keeps no longer what is in no window after the one that ends then."""
        before = pane_key((end + self._slide - self._length) // self._size + 1)
        start = (
            _PANES if self._ended == NEVER else pane_key((self._ended + self._slide - self._length) // self._size + 1)
        )
        for key in [key for key, _ in self._state.range(start, before)]:
            self._state.delete(key)


def pane_key(pane: int, text: str = "") -> str:
    """Of a key's value in a pane. Without a text, before all of the pane."""
    return f"{_PANES}{text_of(pane)}/{text}" if text else f"{_PANES}{text_of(pane)}"


def pane_of(key: str) -> tuple[int, str]:
    """The pane and the text."""
    return number_of(key[len(_PANES) : len(_PANES) + DIGITS]), key[len(_PANES) + DIGITS + 1 :]


def _text(pair: tuple[str, Any]) -> str:
    return pair[0][len(_PANES) + DIGITS + 1 :]
