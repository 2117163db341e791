"""Thousands of random schedules: crashes of every role at any step, and no message is lost.

A schedule draws a topology of bolts that fail, raise, forget, hold, join and fan out; kills processes, cuts
checkpoints in half and stalls the machine; then lets it calm down. Throughout, no message may be acked whose tree was
not processed completely, as its bolts know it. In the end every message is acked, and nothing is left anywhere.
"""

from collections import Counter

import pytest

from kstorm.core import ledger
from kstorm.core.ledger import BUCKETS, Ledger
from kstorm.testing import LocalCluster, executors
from kstorm.testing.simulation import Truth, ViolationError, run_schedule, run_topology
from kstorm.testing.simulation.topologies import diamond_that_fails_every_seventh
from kstorm.testing.world import World


def test_no_message_is_lost(seeds: range) -> None:
    """Whatever dies. A failing schedule says its seed: replay it with `pytest tests/sim --seed N`."""
    for seed in seeds:
        run_schedule(seed)


def test_the_schedules_are_hard() -> None:
    """They crash every role, cut checkpoints, stall; messages are replayed and re-executed; some run undisturbed."""
    faults: Counter[str] = Counter()
    replayed = undisturbed = 0
    for seed in range(60):
        report = run_schedule(seed)
        faults += report.faults
        replayed += report.attempts > report.messages
        undisturbed += report.attempts == report.messages
    crashes = {"crash of a spout", "crash of a bolt", "crash of a acker", "zombie of a bolt", "zombie of a acker"}
    assert crashes | {"checkpoint", "stall"} <= set(faults)
    assert replayed > 20
    assert undisturbed > 3


def test_the_same_seed_is_the_same_schedule() -> None:
    """Two runs of a seed have the same report; another seed has another."""
    assert run_schedule(11) == run_schedule(11)
    assert run_schedule(11) != run_schedule(12)


def test_a_diamond_whose_branch_fails_every_seventh_tuple_once() -> None:
    """Without faults of machines: exactly the failed messages are replayed, at once, and all are acked."""
    truth = Truth(messages=70)
    with LocalCluster(diamond_that_fails_every_seventh(truth)) as cluster:
        cluster.run_until_idle()
        assert truth.finished == set(range(70))
        assert truth.attempts == 80
        assert sorted(message for message, _ in cluster.failed("source")) == list(range(6, 70, 7))
        assert (cluster.now, cluster.pending, truth.violations) == (0, 0, [])


@pytest.mark.parametrize("seed", range(20))
def test_the_same_diamond_among_crashes(seed: int) -> None:
    """With ackers, bolts and the spout killed at random steps: all acked, nothing lost, nothing left."""
    truth = Truth(messages=30)
    report = run_topology(diamond_that_fails_every_seventh(truth, acker_executors=2), truth, seed, fault_steps=600)
    assert truth.finished == set(range(30))
    assert report.attempts > 30


class NaiveLedger(Ledger):
    """XOR kept across crashes, and nothing else: inits count each time, replays are applied on top."""

    def _apply_inits(self, task: int, pairs: object) -> None:
        inits = list(pairs)  # type: ignore[call-overload]
        for root, _ in inits:
            rows = self._buckets[root % BUCKETS]
            if root in rows:
                rows[root] &= ~ledger._INIT
        super()._apply_inits(task, inits)

    def restore(self, stored: object) -> None:
        super().restore(stored)  # type: ignore[arg-type]
        self._stamps = [-1] * BUCKETS
        self._replay_until = -1


def test_the_simulation_sees_what_a_naive_ledger_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ledger's rules switched off, a message is acked whose tree is open: within 300 schedules."""
    monkeypatch.setattr(executors, "Ledger", NaiveLedger)
    with pytest.raises(ViolationError, match=r"seed \d+: message \d+ was acked, and its tree is open"):
        test_no_message_is_lost(range(300))


def test_the_simulation_sees_what_zombies_do_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a paused process writes to a changelog after others have its tasks takes acked messages out of the state."""
    monkeypatch.setattr(World, "fence", False)
    with pytest.raises(ViolationError, match="are not in the state of 'tally'"):
        test_no_message_is_lost(range(1500))
