"""Counters of processes, summed over their restarts.

A process that dies restarts at zero. The last counts of each run are kept, so that sums never
decrease. They miss at most the counts between the last poll and the death.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from kstorm.runtime.service.status_counters import StatusCounters, run_key

K = TypeVar("K")
N = TypeVar("N", int, float)

Edge = tuple[str, str]
"""Stream and target."""


@dataclass(frozen=True, slots=True)
class CounterSums:
    """Counters of one process, or of several. `figures.pending` is a gauge, not a counter."""

    figures: StatusCounters = field(default_factory=StatusCounters)
    edges: Mapping[Edge, int] | None = None
    """Tuples sent by stream and target. None for services that do not report it."""
    busy: float | None = None
    """Busy seconds. None for services that do not report them."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Waiting seconds by cause."""
    late: float = 0.0
    """Tuples of windowed bolts that were too late for their windows."""
    in_time: float = 0.0
    """Tuples of windowed bolts that were in time."""

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """Parse a `/status` response."""
        edges: Counter[Edge] = Counter()
        for each in status.get("edges") or ():
            edges[str(each["stream"]), str(each["target"])] += int(each["tuples"])
        busy = status.get("busy_seconds")
        waits = {
            str(cause): float(seconds) for cause, seconds in (status.get("waits") or {}).items()
        }
        return cls(
            StatusCounters.of(status),
            edges if "edges" in status else None,
            None if busy is None else float(busy),
            waits,
            *_lateness(status.get("own") or {}),
        )

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def ended(self) -> Self:
        """Return the counts after the process has died, without pending tuples, which may have
        moved."""
        return replace(self, figures=replace(self.figures, pending=0))

    def _combine(self, other: Self, sign: int) -> Self:
        figures = self.figures + other.figures if sign > 0 else self.figures - other.figures
        told = self.busy is not None or other.busy is not None
        return type(self)(
            figures,
            None
            if self.edges is None and other.edges is None
            else _added(self.edges or {}, other.edges or {}, sign),
            (self.busy or 0.0) + sign * (other.busy or 0.0) if told else None,
            _added(self.waits, other.waits, sign),
            self.late + sign * other.late,
            self.in_time + sign * other.in_time,
        )


def _lateness(own: Mapping[str, Any]) -> tuple[float, float]:
    return float(own.get("late_total", 0.0)), float(own.get("in_time_total", 0.0))


def _added(one: Mapping[K, N], other: Mapping[K, N], sign: int) -> dict[K, N]:
    return {key: one.get(key, 0) + sign * other.get(key, 0) for key in {*one, *other}}


class ProcessCounters:
    """The counters of one process over all its restarts."""

    def __init__(self) -> None:
        self.status: Mapping[str, Any] = {}
        """The last `/status` response."""
        self.starts = 0
        """Number of runs seen."""
        self._life: tuple[int, float] | None = None
        self._past = self._present = CounterSums()

    @property
    def total(self) -> CounterSums:
        """Counts of all runs."""
        return self._past + self._present

    @property
    def present(self) -> CounterSums:
        """Counts of the current or last run."""
        return self._present

    def learn(self, status: Mapping[str, Any] | None) -> None:
        """Add a poll's `/status`. None if the process did not respond."""
        if status is None:
            self._present = self._present.ended()
            return
        life = run_key(status)
        if life != self._life:
            self._past, self._life = self._past + self._present.ended(), life
            self.starts += 1
        self._present, self.status = CounterSums.of(status), status
