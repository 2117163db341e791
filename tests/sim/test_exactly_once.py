"""Exactly once, whatever dies: a spout with positions, bolts that split, count and join, and raise at any point.

In the end each part of each message is in exactly one committed record, the counts of a key are 1, 2, … n, the recovered
state has n, and nothing is left anywhere.
"""

from collections import Counter
from multiprocessing import get_context
from os import cpu_count

import pytest

from tests.sim.exactly_once.mutants import mutants
from tests.sim.exactly_once.ranges import explore_ranges
from tests.sim.exactly_once.small import explore_small_world
from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.mutant import Mutant

SCHEDULES = 1000
_RANGES = 200


@pytest.mark.timeout(900)  # half a minute for a thousand on two idle processors
@pytest.mark.parametrize("schedules", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_everything_counts_once(schedules: int) -> None:
    """Whatever dies, and every kind of fault is made. A failing schedule says its seed."""
    with get_context("spawn").Pool(cpu_count()) as pool:
        reports = list(pool.imap_unordered(explore_exactly_once, range(schedules), 20))
    met = sum((report.faults + report.seen for report in reports), Counter[str]())
    wanted = [
        "kill",
        "zombie",
        "scale",
        "stall",
        "compaction",
        "answer lost",
        "request late",
        "zombie refused",
        "transaction refused: ILLEGAL_GENERATION",
    ]
    assert {what: met[what] for what in wanted if met[what] < schedules / 2} == {}


def test_everything_counts_once_in_a_small_world() -> None:
    """Processes that are taken for dead and that move, amid transactions whose requests get lost; some tuples are dead letters."""
    seen = sum((explore_small_world(seed).seen for seed in range(SCHEDULES)), Counter[str]())
    assert {
        what: seen[what]
        for what in ("answer lost", "request late", "zombie refused")
        if seen[what] < SCHEDULES
    } == {}


def test_what_is_stored_is_in_finished_ranges() -> None:
    """A `KafkaSpout` on a fake Kafka: each range tells the truth, and no offset is stored before the range below it."""
    seen = sum((explore_ranges(seed).seen for seed in range(_RANGES)), Counter[str]())
    wanted = "finished range refused", "committed by a former life"
    assert {what: seen[what] for what in wanted if seen[what] < _RANGES / 40} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.rule)
def test_the_simulation_notices_when_a_rule_is_switched_off(mutant: Mutant) -> None:
    """Within a bounded number of schedules."""
    found = mutant.notice()
    assert found is not None, f"not noticed within {mutant.within} schedules"
