"""The kinds of schedules: one for each guarantee of a topology."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.reached import MODULES
from tests.sim.schedule import Report, run_schedule

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

_EXACT_MODULES: Final = (
    "kstorm.core.bolt_task",
    "kstorm.core.engine.engine",
    "kstorm.core.engine.epochs",
    "kstorm.core.engine.exact_bolt",
    "kstorm.core.engine.exact_spout",
    "kstorm.core.exact.collector",
    "kstorm.core.exact.spout_task",
    "kstorm.core.exact.state",
    "kstorm.core.exact.task",
    "kstorm.core.exact.tuples",
    "kstorm.core.exact.unfinished",
    "kstorm.core.outbox",
    "kstorm.core.recovery",
    "kstorm.core.state",
)


@dataclass(frozen=True, slots=True)
class Kind:
    run: Callable[[int, Callable[[str], None]], Report]
    """Runs the schedule of a seed and reports its events. Raises `ViolationError`."""
    modules: tuple[str, ...]
    """Modules whose coverage matters: many schedules prove little about rarely reached lines."""


KINDS: Final = {
    AT_LEAST_ONCE: Kind(run_schedule, MODULES),
    EXACTLY_ONCE: Kind(explore_exactly_once, _EXACT_MODULES),
}
