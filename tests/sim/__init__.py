"""Random schedules of random topologies with faults, checked against what their bolts know to be true.

`run_schedule(seed)` is one of them; the same seed is the same schedule. `./run sim` runs them by the thousand, on all
processors, and says what they met and which code they rarely reached.
"""

from tests.sim.schedule import Report, ViolationError, run_schedule, run_topology
from tests.sim.truth import Truth

__all__ = ["Report", "Truth", "ViolationError", "run_schedule", "run_topology"]
