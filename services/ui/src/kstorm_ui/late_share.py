"""The share of tuples that come too late for their windows."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from kstorm_ui.counters import CounterSums

_WINDOW_SECS: Final = 600.0
_STEP_SECS: Final = 10.0


class LateShare:
    """Sums of the last ten minutes, in steps of ten seconds."""

    def __init__(self) -> None:
        self._sums: deque[tuple[float, float, float]] = deque()

    def learn(self, totals: Iterable[CounterSums], now: float) -> float | None:
        """Add a poll, and return the share from 0 to 1. None if no tuple went to a window."""
        late = in_time = 0.0
        for each in totals:
            late, in_time = late + each.late, in_time + each.in_time
        if not self._sums or now - self._sums[-1][0] >= _STEP_SECS:
            self._sums.append((now, late, in_time))
        while len(self._sums) > 1 and self._sums[1][0] <= now - _WINDOW_SECS:
            self._sums.popleft()
        _, before_late, before_in_time = self._sums[0]
        grown = late - before_late, in_time - before_in_time
        if sum(grown) > 0:
            return max(0.0, grown[0] / sum(grown))
        return 0.0 if late + in_time else None
