"""Windows that keep a value for each key in place of tuples: one for each pane of time, and a window is some panes.

A tuple costs one value read and one written, however long the windows are.
"""

from collections.abc import Callable, Iterator, Sequence
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


class PaneWindow(Struct, frozen=True):
    """The values of a window, by their keys, in the order of the keys' texts where it has one pane."""

    values: Sequence[tuple[Sequence[Any], Any]]
    start_timestamp: int
    end_timestamp: int


class PaneManager:
    """Of one task, in the place of a `WindowManager`. Times are Unix milliseconds."""

    def __init__(
        self, state: KeyValueState, length: int, slide: int, fold: Fold, combine: Callable[[Any, Any], Any]
    ) -> None:
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
        key = _key(-(-time // self._size), text)
        there = self._state.get(key)
        self._state.put(key, [list(values), value if there is None else self._combine(there[1], value)])

    def due(self, time: int) -> Iterator[PaneWindow]:
        """See `Manager.due`."""
        while (end := self._next_end()) is not None and end <= time:
            yield self._window(end)
            for key in [
                key for key, _ in self._state.range(_PANES, _key((end + self._slide - self._length) // self._size + 1))
            ]:
                self._state.delete(key)
            self._ended = end

    def stored(self) -> list[Any]:
        """For the state."""
        return [self._ended]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        (self._ended,) = stored

    def _next_end(self) -> int | None:
        """When the next window ends that has a value; None if there is none."""
        first = next(self._state.range(_PANES, _END), None)
        if first is None:
            return None
        pane_end = number_of(first[0][len(_PANES) : len(_PANES) + DIGITS]) * self._size
        aligned = -(-pane_end // self._slide) * self._slide
        return aligned if self._ended == NEVER else max(self._ended + self._slide, aligned)

    def _window(self, end: int) -> PaneWindow:
        found: dict[str, tuple[Sequence[Any], Any]] = {}
        start = end - self._length
        for key, (values, value) in self._state.range(_key(start // self._size + 1), _key(end // self._size + 1)):
            text = key[len(_PANES) + DIGITS + 1 :]
            found[text] = values, self._combine(found[text][1], value) if text in found else value
        return PaneWindow(list(found.values()), start, end)


def _key(pane: int, text: str = "") -> str:
    return f"{_PANES}{text_of(pane)}/{text}" if text else f"{_PANES}{text_of(pane)}"
