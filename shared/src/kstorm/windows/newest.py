"""The tuples that windows of a number of tuples may still have, if windows end by time.

Such a window has the last tuples before its end. So a tuple that has as many later ones before that
end is in no window. Without this, the state would hold all tuples of a slide.
"""

from itertools import islice
from typing import Final

from kstorm.topology import Tuple
from kstorm.windows.window_store import END, WindowStore, key_of, last_key, time_of_key

_FEW: Final = 10
_MANY: Final = 80


class Newest:
    """Stores the newest tuples before each end of a window."""

    def __init__(self, kept: WindowStore, length: int, slide: int) -> None:
        self._kept, self._length, self._slide = kept, length, slide
        # Surplus tuples are deleted together: each search for them in the state takes some time.
        self._most = length + _FEW + min(length, _MANY)
        # By window, the number of stored tuples that no earlier window has. None if not counted.
        self._counts: dict[int, int] | None = None
        self._gone: dict[int, str] = {}
        """By window, the key up to which its tuples were deleted."""

    def add(self, time: int, number: int, tuple: Tuple, shown: str) -> None:
        """Store a tuple if a window may have it. `shown` is the last key of the last window."""
        counts = self._counted(shown) if self._counts is None else self._counts
        window = -(-time // self._slide)
        gone = self._gone.get(window)
        if gone is not None and key_of(time, number) < gone:
            return
        self._kept.add(time, number, tuple)
        count = counts.get(window, 0) + 1
        if count > self._most:
            behind = last_key((window - 1) * self._slide) if gone is None else gone
            keys = self._kept.keys(behind, last_key(window * self._slide))
            surplus = list(islice(keys, count - self._length))
            self._kept.discard(surplus)
            self._gone[window] = surplus[-1]
            count = self._length
        counts[window] = count

    def ended(self, end: int) -> None:
        """Forget the windows up to one that was shown."""
        counts = self._counts or {}
        for window in [window for window in counts if window * self._slide <= end]:
            del counts[window]
            self._gone.pop(window, None)

    def _counted(self, shown: str) -> dict[int, int]:
        """Count the stored tuples, once after the state was loaded."""
        counts = self._counts = {}
        for key in self._kept.keys(shown, END):
            window = -(-time_of_key(key) // self._slide)
            counts[window] = counts.get(window, 0) + 1
        return counts
