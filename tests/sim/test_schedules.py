"""Random schedules: no message is lost, whatever dies. The tiers run 600, 4,000 and 10,000.

A schedule draws a topology of bolts that fail, raise, forget, hold, join and fan out, and a kind of
faults. Faults may occur between any two steps, and stop in the end. At all times, no message may be
acked whose tree was not processed completely, as its bolts know. No offset may be stored above an
unfinished message. In the end every message is finished, and nothing is left anywhere.
"""

import os

import pytest

from kstorm.testing import LocalCluster
from tests.sim import Truth, run_schedule, run_topology
from tests.sim.at_most_once import explore_at_most_once
from tests.sim.coverage import all_lines
from tests.sim.leases import explore_leases
from tests.sim.mutant import Mutant
from tests.sim.mutants import mutants
from tests.sim.outcome import SimOutcome
from tests.sim.sweep import sweep
from tests.sim.topologies import diamond_that_fails_every_seventh


@pytest.fixture(
    scope="module",
    params=[
        600,
        pytest.param(4_000, marks=pytest.mark.slow),
        pytest.param(10_000, marks=pytest.mark.long),
    ],
)
def outcome(request: pytest.FixtureRequest) -> SimOutcome:
    """Run the schedules and return everything they met."""
    return sweep(range(request.param), os.cpu_count() or 1)


@pytest.mark.timeout(900)  # 10,000 take minutes on two idle processors
def test_no_message_is_lost(outcome: SimOutcome) -> None:
    """A failing schedule prints its seed: replay it with `./run sim --seed N --trace`."""
    assert outcome.violations == []


def test_schedules_contain_every_fault(outcome: SimOutcome) -> None:
    """Guards reject requests, messages are replayed, and most of the protocol is reached."""
    roles = ("a spout", "a bolt", "an acker")
    faults = {f"{what} of {role}" for what in ("kill", "zombie") for role in roles}
    faults |= {"checkpoint", "machine too busy", "slow broker", "scale", "offsets set back"}
    faults |= {
        "lost disk",
        "disk from an earlier run",
        "ZooKeeper down",
        "ZooKeeper session expired",
    }
    seen = {"duplicate record", "reordered record", "zombie refused", "news of unknown trees"}
    seen |= {"repeated inits", "skipped records", "expired", "done above the stored offset"}
    assert {
        name: outcome.faults[name]
        for name in faults
        if outcome.faults[name] < outcome.schedules / 20
    } == {}
    # Skipped records are the rarest event: 11 of 600 schedules have some.
    assert {
        name: outcome.seen[name] for name in seen if outcome.seen[name] < outcome.schedules / 60
    } == {}
    assert outcome.replays > outcome.schedules
    # One schedule of a hundred is traced, and ten of them reach fewer of the rare lines.
    enough = 0.75 if outcome.traced > 10 else 0.7
    assert len(all_lines() & outcome.reached.keys()) > enough * len(all_lines())


def test_seed_determines_the_schedule() -> None:
    """Two runs of a seed have the same report and the same events. Another seed has others."""
    stories: list[list[str]] = [[], []]
    reports = [run_schedule(11, story.append) for story in stories]
    assert reports[0] == reports[1]
    assert stories[0] == stories[1]
    assert reports[0] != run_schedule(12)


def test_diamond_with_failing_branch_replays_only_failed_messages() -> None:
    """Without machine faults they are replayed immediately, and all are acked."""
    truth = Truth(messages=70)
    with LocalCluster(diamond_that_fails_every_seventh(truth)) as cluster:
        cluster.run_until_idle()
        assert truth.finished == set(range(70))
        assert truth.replays == 10
        assert sorted(message for message, _ in cluster.failed("source")) == list(range(6, 70, 7))
        assert (cluster.now, cluster.pending, truth.violations) == (0, 0, [])


@pytest.mark.parametrize("seed", range(20))
def test_diamond_with_failing_branch_survives_crashes(seed: int) -> None:
    """Ackers, bolts and the spout are killed at random steps. All is acked, and nothing is left."""
    truth = Truth(messages=30)
    report = run_topology(
        diamond_that_fails_every_seventh(truth, acker_executors=2), truth, seed, fault_steps=600
    )
    assert truth.finished == set(range(30))
    assert report.replays


def test_partition_has_one_owner_at_a_time() -> None:
    """Leases with lost sessions and answers: no offset goes back, no lock holder is fenced."""
    for seed in range(1000):
        explore_leases(seed)


def test_at_most_once_emits_no_message_twice() -> None:
    """Spouts store before they emit. Without a crash no message is lost."""
    for seed in range(300):
        explore_at_most_once(seed)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.rule)
def test_simulation_notices_a_missing_rule(mutant: Mutant) -> None:
    """The number of schedules is limited. Otherwise the rule is needless or untested."""
    found = mutant.notice()
    assert found is not None, f"not noticed within {mutant.within} schedules"
