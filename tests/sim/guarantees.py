"""The kinds of schedules: one for each guarantee of a topology."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.sim.coverage import MODULES
from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.schedule import ScheduleReport, run_schedule

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

_EXACT_MODULES: Final = (
    "kstorm.core.bolt_task",
    "kstorm.core.engine.engine",
    "kstorm.core.engine.epochs",
    "kstorm.core.engine.exact_bolt",
    "kstorm.core.engine.exact_spout",
    "kstorm.core.exactly_once.exact_collector",
    "kstorm.core.exactly_once.exact_spout_task",
    "kstorm.core.exactly_once.undoable_state",
    "kstorm.core.exactly_once.exact_bolt_task",
    "kstorm.core.exactly_once.located_tuples",
    "kstorm.core.exactly_once.unfinished",
    "kstorm.core.outbox",
    "kstorm.core.recovery",
    "kstorm.core.task_state",
)


@dataclass(frozen=True, slots=True)
class Guarantee:
    run: Callable[[int, Callable[[str], None]], ScheduleReport]
    """Runs the schedule of a seed and reports its events. Raises `ViolationError`."""
    modules: tuple[str, ...]
    """Modules whose coverage matters: many schedules prove little about rarely reached lines."""


GUARANTEES: Final = {
    AT_LEAST_ONCE: Guarantee(run_schedule, MODULES),
    EXACTLY_ONCE: Guarantee(explore_exactly_once, _EXACT_MODULES),
}
