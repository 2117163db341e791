"""What `/status` pages count, to be added up over the processes of a component."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any, Self

from kstorm.runtime.service.metrics import quantile


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts since the start; `pending` is how many there are now. An acker acks trees, and its pending trees are open."""

    emitted: int = 0
    executed: int = 0
    acked: int = 0
    failed: int = 0
    pending: int = 0
    frames_in: int = 0
    errors: int = 0
    latency_counts: tuple[int, ...] = ()
    """A histogram, as `kstorm.runtime.service.metrics.quantile` reads it."""

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """The figures that a `/status` page tells; what it does not tell is 0."""
        counts = {
            field.name: status.get(field.name, 0)
            for field in fields(cls)
            if field.name != "latency_counts"
        }
        return cls(**counts, latency_counts=tuple(status.get("latency_counts", ())))

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def latency(self, share: float) -> float | None:
        """Seconds below which `share` of the latencies lie, to 30 %; None without any."""
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
    """`12 ms`, `3.4 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def format_age(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h`, `2 d`; what is left over of a minute, an hour or a day is dropped."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def life_of(status: Mapping[str, Any]) -> tuple[int, float]:
    """What stays the same until a process dies or begins anew: from then on it counts from 0."""
    return status["pid"], status["begun_at"]


def last_error(status: Mapping[str, Any]) -> str:
    """`KeyError in task 3`; empty if there was none. Its text is in the log of its process, and on no page."""
    error, task = status.get("last_error", ""), status.get("last_error_task")
    return str(error) if task is None else f"{error} in task {task}"


def format_error(error: str, age: float | None) -> str:
    """`error`, with how long ago it was where that is known: it may be over and done with."""
    return error if age is None else f"{error} ({format_age(age)} ago)"
