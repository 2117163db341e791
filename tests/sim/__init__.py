"""Random schedules of random topologies with faults, checked against what their bolts know.

`run_schedule(seed)` is one of them. The same seed is the same schedule. `./run sim` runs thousands
of them on all processors, and reports what occurred and which code was rarely reached.
"""

from tests.sim.schedule import ScheduleReport, ViolationError, run_schedule, run_topology
from tests.sim.truth import Truth

__all__ = ["ScheduleReport", "Truth", "ViolationError", "run_schedule", "run_topology"]
