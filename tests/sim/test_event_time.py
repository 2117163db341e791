"""Event time among faults: in time is in time, and windows close."""

from collections import Counter
from multiprocessing import get_context
from os import cpu_count

import pytest

from tests.rare_collection import collect_rarely
from tests.sim.event_time import explore_chain, explore_event_time
from tests.sim.event_time_mutants import mutants
from tests.sim.mutant import Mutant


@pytest.mark.timeout(900)
@pytest.mark.parametrize("schedules", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_no_tuple_in_time_is_late(schedules: int) -> None:
    """With both guarantees. Every kind of fault occurs. A failing schedule prints its seed."""
    with get_context("spawn").Pool(cpu_count(), initializer=collect_rarely) as pool:
        reports = list(pool.imap_unordered(explore_event_time, range(schedules), 10))
    met = sum((report.faults for report in reports), Counter[str]())
    wanted = ("kill", "zombie", "scale", "clock jumps", "stall")
    assert {what: met[what] for what in wanted if met[what] < schedules / 2} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("schedules", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_no_window_is_late_behind_windows_that_die(schedules: int) -> None:
    """Windows that are shown again after a crash are in time for the next windowed bolt."""
    for seed in range(schedules):
        assert explore_chain(seed).faults["kill"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.rule)
def test_simulation_notices_a_missing_rule_of_event_time(mutant: Mutant) -> None:
    """The number of schedules is limited."""
    found = mutant.notice()
    assert found is not None, f"not noticed within {mutant.within} schedules"
