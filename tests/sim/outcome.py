"""What comes of many schedules."""

from collections import Counter
from dataclasses import dataclass, field

from tests.sim.reached import Line


@dataclass
class SimOutcome:
    """What came of some schedules."""

    kind: str = "at-least-once"
    """See `tests.sim.kinds`."""
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
    """In how many of the traced schedules each line was reached."""
    seconds: float = 0.0
    """On the clock, of all runs that had a part in it."""

    def add(self, other: "SimOutcome") -> None:
        """Takes in what came of some more."""
        for name in ("schedules", "messages", "replays", "executions", "steps", "traced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults
        self.seen += other.seen
        self.reached += other.reached
        self.violations += other.violations
