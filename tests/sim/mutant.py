"""A rule, kstorm without it, and the schedules in which that shows.

A rule whose absence nothing notices would be either needless or untested.
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
    """A schedule without ackers: nothing is replayed by a spout, so no bolt may lose anything."""
    run_schedule(seed, weather=Weather.UNTRACKED)


def handover(seed: int) -> None:
    """A schedule in which bolts with state are taken for dead again and again."""
    run_schedule(seed, weather=Weather.HANDOVER)


def takeover(seed: int) -> None:
    """A schedule in which bolts with state are taken for dead amid their checkpoints, and nothing else happens."""
    run_schedule(seed, weather=Weather.TAKEOVER)


def crashing(seed: int) -> None:
    """A schedule of a ledger alone that crashes again and again."""
    explore(seed, often=4)


@dataclass(frozen=True)
class Mutant:
    """A rule, and kstorm without it."""

    rule: str
    """In plain words."""
    off: Callable[[], AbstractContextManager[object]]
    """Switches the rule off while the context lasts."""
    explore: Callable[[int], object] = run_schedule
    """Runs the schedule of a seed, and raises `AssertionError` if it finds something wrong."""
    within: int = 4000
    """The number of seeds within which it is found."""

    def hunt(self) -> tuple[int, str] | None:
        """How many seeds it took until the first violation, and what that was; None if `within` did not suffice."""
        with self.off():
            for seed in range(self.within):
                try:
                    self.explore(seed)
                except AssertionError as error:
                    return seed + 1, str(error)
        return None
