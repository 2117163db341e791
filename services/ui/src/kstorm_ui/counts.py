"""What processes have counted, added up over their lives.

The rule: what was counted stays counted. A process that dies begins again at zero; the last counts of each life are kept, so sums
never go down. They miss at most what happened between the last look and the death.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from kstorm.runtime.service.figures import Figures, life_of

K = TypeVar("K")
N = TypeVar("N", int, float)

Edge = tuple[str, str]
"""Stream and target."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one process, or of several. `figures.pending` is how many there are now."""

    figures: Figures = field(default_factory=Figures)
    edges: Mapping[Edge, int] | None = None
    """Tuples sent by stream and target; None of services that do not tell."""
    busy: float | None = None
    """Seconds in which they worked; None of services that do not tell."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Seconds in which they waited, by cause."""

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """What a `/status` page tells."""
        edges: Counter[Edge] = Counter()
        for each in status.get("edges") or ():
            edges[str(each["stream"]), str(each["target"])] += int(each["tuples"])
        busy = status.get("busy_seconds")
        waits = {
            str(cause): float(seconds) for cause, seconds in (status.get("waits") or {}).items()
        }
        return cls(
            Figures.of(status),
            edges if "edges" in status else None,
            None if busy is None else float(busy),
            waits,
        )

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def ended(self) -> Self:
        """After the process has died: its pending tuples may be another's by now."""
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
        )


def _added(one: Mapping[K, N], other: Mapping[K, N], sign: int) -> dict[K, N]:
    return {key: one.get(key, 0) + sign * other.get(key, 0) for key in {*one, *other}}


class Lives:
    """One process over all its restarts."""

    def __init__(self) -> None:
        self.status: Mapping[str, Any] = {}
        """The last that it told."""
        self.starts = 0
        """How many lives were seen."""
        self._life: tuple[int, float] | None = None
        self._past = self._present = Counts()

    @property
    def total(self) -> Counts:
        """Of all lives."""
        return self._past + self._present

    @property
    def present(self) -> Counts:
        """Of the present life, or the last one."""
        return self._present

    def learn(self, status: Mapping[str, Any] | None) -> None:
        """Takes note of a look; None if it did not answer."""
        if status is None:
            self._present = self._present.ended()
            return
        life = life_of(status)
        if life != self._life:
            self._past, self._life = self._past + self._present.ended(), life
            self.starts += 1
        self._present, self.status = Counts.of(status), status
