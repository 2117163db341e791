"""A rule, kstorm without it, and the schedules that reveal it.

A rule whose absence goes unnoticed would be either needless or untested.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.sim.faults import Weather
from tests.sim.ledger_schedules import explore
from tests.sim.schedule import run_schedule


def storm(seed: int) -> None:
    """A schedule about ZooKeeper."""
    run_schedule(seed, weather=Weather.STORM)


def gentle(seed: int) -> None:
    """A schedule that must cost no replay and no second execution."""
    run_schedule(seed, weather=Weather.GENTLE)


def orderly(seed: int) -> None:
    """A schedule in which tasks only move, which must cost no second execution."""
    run_schedule(seed, weather=Weather.ORDERLY)


def untracked(seed: int) -> None:
    """A schedule without ackers: no spout replays anything, so no bolt may lose anything."""
    run_schedule(seed, weather=Weather.UNTRACKED)


def handover(seed: int) -> None:
    """A schedule in which stateful bolts are repeatedly assumed dead."""
    run_schedule(seed, weather=Weather.HANDOVER)


def takeover(seed: int) -> None:
    """A schedule in which only this happens: stateful bolts are assumed dead during checkpoints."""
    run_schedule(seed, weather=Weather.TAKEOVER)


def crashing(seed: int) -> None:
    """A schedule of a ledger alone that crashes repeatedly."""
    explore(seed, often=4)


@dataclass(frozen=True)
class Mutant:
    """A rule, and kstorm without it."""

    rule: str
    """In plain words."""
    off: Callable[[], AbstractContextManager[object]]
    """Switches the rule off within the block."""
    explore: Callable[[int], object] = run_schedule
    """Runs the schedule of a seed, and raises `AssertionError` if it finds an error."""
    within: int = 4000
    """The number of seeds within which it must be found."""

    def hunt(self) -> tuple[int, str] | None:
        """Return the number of seeds until the first violation, and the violation, or None."""
        with self.off():
            for seed in range(self.within):
                try:
                    self.explore(seed)
                except AssertionError as error:
                    return seed + 1, str(error)
        return None
