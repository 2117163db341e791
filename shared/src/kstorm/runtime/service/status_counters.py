"""Counters of `/status` pages, which can be summed over the processes of a component."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any, Self

from kstorm.runtime.base.metrics import quantile


@dataclass(frozen=True, slots=True)
class StatusCounters:
    """Counters since the start, without ticks. `pending` is a gauge. For an acker, acked counts
    completed trees and `pending` open ones."""

    emitted: int = 0
    executed: int = 0
    acked: int = 0
    failed: int = 0
    pending: int = 0
    frames_in: int = 0
    errors: int = 0
    latency_counts: tuple[int, ...] = ()
    """A histogram for `kstorm.runtime.base.metrics.quantile`."""

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """Read the counters of a `/status` page. Missing ones are 0."""
        counts = {
            field.name: status.get(field.name, 0)
            for field in fields(cls)
            if field.name != "latency_counts"
        }
        ticks = status.get("ticks", 0)  # kstorm acks each tick
        counts["executed"] = max(0, counts["executed"] - ticks)
        counts["acked"] = max(0, counts["acked"] - ticks)
        return cls(**counts, latency_counts=tuple(status.get("latency_counts", ())))

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def latency(self, share: float) -> float | None:
        """Return the quantile of the latencies in seconds, accurate to 30 %. Return None without
        latencies."""
        return quantile(list(self.latency_counts), share)

    def _combine(self, other: Self, sign: int) -> Self:
        counts = {
            field.name: getattr(self, field.name) + sign * getattr(other, field.name)
            for field in fields(self)
            if field.name != "latency_counts"
        }
        buckets = zip_longest(self.latency_counts, other.latency_counts, fillvalue=0)
        return type(self)(
            **counts, latency_counts=tuple(mine + sign * theirs for mine, theirs in buckets)
        )


def format_seconds(seconds: float) -> str:
    """Format seconds as `12 ms` or `3.4 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def format_age(seconds: float) -> str:
    """Format an age as `42 s`, `5 min`, `3 h` or `2 d`, rounded down."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def run_key(status: Mapping[str, Any]) -> tuple[int, float]:
    """Return a key that changes when a process restarts or re-executes itself. At that time its
    counters are 0."""
    return status["pid"], status["begun_at"]


def last_error(status: Mapping[str, Any]) -> str:
    """Return `KeyError in task 3`, or "" without errors. The error's text is only in the log of its
    process."""
    error, task = status.get("last_error", ""), status.get("last_error_task")
    return str(error) if task is None else f"{error} in task {task}"


def format_error(error: str, age: float | None) -> str:
    """Return `error` with its age if known, because the error may be old."""
    return error if age is None else f"{error} ({format_age(age)} ago)"
