"""The outcome of many schedules."""

from collections import Counter
from dataclasses import dataclass, field

from tests.sim.coverage import Line


@dataclass
class SimOutcome:
    kind: str = "at-least-once"
    """See `tests.sim.guarantees`."""
    schedules: int = 0
    messages: int = 0
    replays: int = 0
    executions: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    traced: int = 0
    reached: Counter[Line] = field(default_factory=Counter)
    """The number of traced schedules that reached each line."""
    seconds: float = 0.0
    """Wall-clock time of all runs that contributed."""

    def add(self, other: "SimOutcome") -> None:
        """Add another outcome."""
        for name in ("schedules", "messages", "replays", "executions", "steps", "traced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults
        self.seen += other.seen
        self.reached += other.reached
        self.violations += other.violations
