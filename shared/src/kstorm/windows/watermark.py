"""The watermark: the time up to which all tuples are assumed to have arrived. It is the lowest time
reached by any input task, minus a lag."""

from collections.abc import Iterable
from typing import Any

from kstorm.topology import Source

NEVER = -(2**61)
"""A time before every tuple's."""


class Watermark:
    """The watermark of one task of a windowed bolt.

    Times are Unix milliseconds. `now` is the machine's clock, which only matters for idle inputs.
    """

    def __init__(
        self, lag_ms: int, idle_ms: int | None, inputs: Iterable[tuple[str, str]] = ()
    ) -> None:
        """`inputs` are components and their streams. The watermark waits for a first tuple from
        each of them, as in Storm. Otherwise the first tuples of a slower input would be late."""
        self._lag, self._idle = lag_ms, idle_ms
        self._unheard = set(inputs)
        self._began: int | None = None
        self.reached: dict[int, int] = {}
        """Highest time of each input task that has sent a tuple."""
        self._heard: dict[int, int] = {}
        self.at = NEVER
        """The watermark. It never goes back."""

    def note(self, source: Source, time: int, now: int) -> None:
        """Record a tuple's source and time."""
        task = source.task
        self._heard[task] = now
        if self._unheard:
            self._unheard.discard((source.component, source.stream))
        if time > self.reached.get(task, NEVER):
            self.reached[task] = time

    def advance(self, now: int) -> bool:
        """Recompute the watermark and return True if it has moved.

        An input task that was idle for too long does not hold it back. If all are idle, it does not
        move.
        """
        self._began = now if self._began is None else self._began
        if self._unheard and (self._idle is None or now - self._began < self._idle):
            return False
        if self._idle is None:
            waited = list(self.reached.values())
        else:
            waited = [
                time
                for task, time in self.reached.items()
                if now - self._heard.setdefault(task, now) < self._idle
            ]
        if not waited or (found := min(waited) - self._lag) <= self.at:
            return False
        self.at = found
        return True

    def stored(self) -> list[Any]:
        return [self.at, list(self.reached.items()), sorted(self._unheard)]

    def restore(self, stored: list[Any]) -> None:
        """Restore stored data. The idle time of an input task starts at the next `advance`."""
        self.at = stored[0]
        self.reached = dict(stored[1])
        self._unheard = {(component, stream) for component, stream in stored[2]}
