"""A rule, kstorm without it, and the schedules that reveal it.

A rule whose absence goes unnoticed would be either needless or untested.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.sim.faults import FaultMix
from tests.sim.ledger_schedules import explore
from tests.sim.schedule import run_schedule


def storm(seed: int) -> None:
    """A schedule about ZooKeeper."""
    run_schedule(seed, fault_mix=FaultMix.STORM)


def gentle(seed: int) -> None:
    """A schedule that must cost no replay and no second execution."""
    run_schedule(seed, fault_mix=FaultMix.GENTLE)


def orderly(seed: int) -> None:
    """A schedule in which tasks only move, which must cost no second execution."""
    run_schedule(seed, fault_mix=FaultMix.ORDERLY)


def untracked(seed: int) -> None:
    """A schedule without ackers: no spout replays anything, so no bolt may lose anything."""
    run_schedule(seed, fault_mix=FaultMix.UNTRACKED)


def handover(seed: int) -> None:
    """A schedule in which stateful bolts are repeatedly assumed dead."""
    run_schedule(seed, fault_mix=FaultMix.HANDOVER)


def far_handover(seed: int) -> None:
    """A handover for a violation that only one schedule in some thousands shows.

    The seeds begin at 20,000, shortly before one that shows it.
    """
    run_schedule(20_000 + seed, fault_mix=FaultMix.HANDOVER)


def takeover(seed: int) -> None:
    """A schedule in which only this happens: stateful bolts are assumed dead during checkpoints."""
    run_schedule(seed, fault_mix=FaultMix.TAKEOVER)


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
        """Return the first seed that shows a violation, and the violation; None if `within` seeds show none."""
        return self._first_of(range(self.within))

    def notice(self) -> tuple[int, str] | None:
        """As `hunt`, but try the seed that `./run sim --mutants` found last time first.

        That seed must pass while the rule is on.
        """
        seed = known_seeds().get(self.rule)
        if seed is not None:
            self.explore(seed)
            if found := self._first_of([seed]):
                return found
            warnings.warn(
                f"schedule {seed} misses {self.rule!r} since a change of the code, so the test "
                "searches for another one: store it with `./run sim --mutants`",
                stacklevel=2,
            )
        return self.hunt()

    def _first_of(self, seeds: Iterable[int]) -> tuple[int, str] | None:
        with self.off():
            for seed in seeds:
                try:
                    self.explore(seed)
                except AssertionError as error:
                    return seed, str(error)
        return None


_KNOWN = Path(__file__).with_name("seeds.json")


@cache
def known_seeds() -> Mapping[str, int]:
    """Return by rule the seed whose schedule shows that the rule is off."""
    found: dict[str, int] = json.loads(_KNOWN.read_text())
    return found


def remember_seeds(found: Mapping[str, int]) -> None:
    """Write the seeds of a hunt for the tests. Rules that it did not hunt keep theirs."""
    _KNOWN.write_text(json.dumps(dict(sorted({**known_seeds(), **found}.items())), indent=1) + "\n")
