"""History of a topology: an hour of samples for charts, a day of minutes for windows.

Both are packed to save memory: about 0.8 MB per component when full.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kstorm.runtime.service.status_counters import StatusCounters

SAMPLE_SECS: Final = 2.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0
_MINUTE: Final = 60.0
_PLAIN: Final = ("emitted", "executed", "acked", "failed", "pending", "frames_in", "errors")


class HistoryPoint(msgspec.Struct, frozen=True):
    """One component at one moment of a chart. Rates are per second, latencies in seconds. None: not
    known."""

    emitted: float
    executed: float
    acked: float
    failed: float
    pending: float
    lag: float | None
    p50: float | None
    p99: float | None


class History:
    """Samples with their monotonic time in seconds. A gap in time is a gap in the history."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, Mapping[str, HistoryPoint]]] = deque()
        self._minutes: deque[tuple[float, Mapping[str, array[int]]]] = deque()

    def add(
        self, now: float, points: Mapping[str, HistoryPoint], totals: Mapping[str, StatusCounters]
    ) -> None:
        """Add a sample. `totals` are counted from the start."""
        self._points.append((now, points))
        while self._points[0][0] < now - HOUR:
            self._points.popleft()
        if not self._minutes or now - self._minutes[-1][0] >= _MINUTE:
            self._minutes.append(
                (now, {component: _pack(figures) for component, figures in totals.items()})
            )
            while self._minutes[0][0] < now - DAY - _MINUTE:
                self._minutes.popleft()

    def points(self, component: str) -> Iterator[tuple[float, HistoryPoint]]:
        """Yield the samples of the last hour, in order."""
        for at, points in list(self._points):
            if component in points:
                yield at, points[component]

    def newest(self, component: str) -> HistoryPoint | None:
        return self._points[-1][1].get(component) if self._points else None

    def before(self, at: float) -> tuple[float, Mapping[str, StatusCounters]] | None:
        """Return the newest totals that are at least as old as `at`, otherwise the oldest ones, or
        None."""
        chosen = None
        for moment, packed in self._minutes:
            if chosen is not None and moment > at:
                break
            chosen = moment, packed
        if chosen is None:
            return None
        return chosen[0], {component: _unpack(row) for component, row in chosen[1].items()}


def _pack(figures: StatusCounters) -> "array[int]":
    return array("q", [*(getattr(figures, name) for name in _PLAIN), *figures.latency_counts])


def _unpack(row: "array[int]") -> StatusCounters:
    plain = dict(zip(_PLAIN, row[: len(_PLAIN)], strict=True))
    return StatusCounters(**plain, latency_counts=tuple(row[len(_PLAIN) :]))
