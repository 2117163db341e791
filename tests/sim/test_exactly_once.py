"""Exactly-once processing among crashes: a spout with positions, and bolts that raise anywhere.

In the end each part of each message is in exactly one committed record. The counts of a key are 1,
2, … n, and the recovered state has n. Nothing is left anywhere.
"""

from collections import Counter
from multiprocessing import get_context
from os import cpu_count

import pytest

from tests.rare_collection import collect_rarely
from tests.sim.exactly_once.mutants import mutants
from tests.sim.exactly_once.ranges import explore_ranges
from tests.sim.exactly_once.small_world import explore_small_world
from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.mutant import Mutant

SMALL = 200
_RANGES = 100


@pytest.mark.timeout(900)  # a thousand take half a minute on two idle processors
@pytest.mark.parametrize(
    "schedules",
    [
        60,
        pytest.param(400, marks=pytest.mark.slow),
        pytest.param(1000, marks=pytest.mark.long),
    ],
)
def test_every_message_counts_once(schedules: int) -> None:
    """Every kind of fault occurs. A failing schedule prints its seed."""
    with get_context("spawn").Pool(cpu_count(), initializer=collect_rarely) as pool:
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


def test_every_message_counts_once_in_a_small_world() -> None:
    """Processes are assumed dead and move during transactions whose requests are lost.

    Some tuples become dead letters.
    """
    seen = sum((explore_small_world(seed).seen for seed in range(SMALL)), Counter[str]())
    assert {
        what: seen[what]
        for what in ("answer lost", "request late", "zombie refused")
        if seen[what] < SMALL
    } == {}


def test_stored_offsets_are_in_finished_ranges() -> None:
    """A `KafkaSpout` on a fake Kafka: ranges are true, and written before offsets above them."""
    seen = sum((explore_ranges(seed).seen for seed in range(_RANGES)), Counter[str]())
    wanted = "finished range refused", "committed by a former life"
    assert {what: seen[what] for what in wanted if seen[what] < _RANGES / 40} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.rule)
def test_simulation_notices_a_missing_rule(mutant: Mutant) -> None:
    """The number of schedules is limited."""
    found = mutant.notice()
    assert found is not None, f"not noticed within {mutant.within} schedules"
