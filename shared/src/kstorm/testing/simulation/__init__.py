"""Random schedules of random topologies with crashes, checked against what their bolts know to be true.

`run_schedule(seed)` is one of them; the same seed is the same schedule.
"""

from kstorm.testing.simulation.schedule import Report, ViolationError, run_schedule, run_topology
from kstorm.testing.simulation.truth import Truth

__all__ = ["Report", "Truth", "ViolationError", "run_schedule", "run_topology"]
