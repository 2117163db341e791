"""One seeded schedule: a random topology, messages, faults between steps, and a final check."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from unittest.mock import patch

from kstorm.core.engine import checkpoints
from kstorm.errors import KstormError
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.fault_phase import MOST_ROUNDS, work_in_calm
from kstorm.testing.world import discard_narration
from kstorm.topology import Topology
from tests.sim.components import Tally
from tests.sim.faults import CALM, DRAWN, FaultMix, ScheduleAdversary, work_among_faults
from tests.sim.kafka_source import TOPIC, SourceTopic
from tests.sim.topologies import TICK_SECS, TIMEOUT, random_topology
from tests.sim.truth import Truth

_MOST_REMAINS = 4
"""Timeouts without pending messages after which no tree may be left.

The ledger drops a row at its third timeout.
"""


class ViolationError(AssertionError):
    """The guarantee was broken. The message contains the reason and the seed."""


@dataclass
class ScheduleReport:
    """The events of one schedule."""

    seed: int
    messages: int
    replays: int = 0
    """Emits of messages that had been emitted before."""
    executions: int = 0
    """Tuples executed and acked by bolts."""
    steps: int = 0
    """Steps among faults."""
    faults: Counter[str] = field(default_factory=Counter)
    """Counts of faults."""
    seen: Counter[str] = field(default_factory=Counter)
    """Counts of rare events in kstorm."""
    seconds: float = 0.0
    """Virtual time until everything was done."""


def run_schedule(
    seed: int, tell: Callable[[str], None] = discard_narration, fault_mix: FaultMix | None = None
) -> ScheduleReport:
    """Draw a topology and a schedule from a seed, and run it. `tell` gets its events as text.

    Raises `ViolationError`.
    """
    random = Random(f"schedule {seed}")
    drawn = random.choice((*DRAWN, *[FaultMix.FOUL] * 4))
    fault_mix = fault_mix or drawn
    truth = Truth(messages=random.randint(3, 10), tracked=fault_mix is not FaultMix.UNTRACKED)
    kafka = fault_mix is FaultMix.STORM or (random.random() < 0.3 and truth.tracked)
    source = SourceTopic(random, truth, random.choice((1, 2, 3))) if kafka else None
    topology = random_topology(random, truth, source, fault_mix in (*CALM, FaultMix.UNTRACKED))
    return run_topology(
        topology, truth, seed, random.choice((0, 150, 150, 300)), source, fault_mix, tell
    )


def run_topology(
    topology: Topology,
    truth: Truth,
    seed: int,
    fault_steps: int,
    source: SourceTopic | None = None,
    fault_mix: FaultMix = FaultMix.FOUL,
    tell: Callable[[str], None] = discard_narration,
) -> ScheduleReport:
    """Run a topology of simulated components, `fault_steps` steps of it with faults."""
    report = ScheduleReport(seed, truth.messages)
    random = Random(f"faults {seed}")
    resources = {} if source is None else source.resources
    chance = Random(f"intake {seed}")
    with (
        patch.object(checkpoints, "LONG_SECS", chance.choice((0, 0.1))),
        LocalCluster(topology, seed, resources, tell, at_once=False) as cluster,
    ):
        if source is not None:
            source.letters = lambda: cluster.sent(topology.dead_letters_topic)
        limit_intake(cluster, chance)
        adversary = ScheduleAdversary(cluster, source, random, fault_mix, truth.forget)
        try:
            work_among_faults(cluster, adversary, fault_steps, lambda: _expect_no_violation(truth))
            report.steps = fault_steps
            _in_calm(cluster, truth, adversary, report)
            _reckon(cluster, truth, source)
            if fault_mix in CALM:
                _expect(
                    not truth.replays,
                    f"{truth.replays} messages were replayed, and nothing called for it",
                )
                again = truth.executed_again()
                _expect(
                    not again,
                    f"the emits {again} were executed twice by one task, and nothing called for it",
                )
        except (ViolationError, KstormError) as error:  # KstormError: it never became idle
            raise ViolationError(f"seed {seed}: {error}") from None
        report.replays, report.executions = truth.replays, truth.executions
        report.faults, report.seen = adversary.struck, cluster.seen
        if source is not None:
            report.seen["done above the stored offset"] = source.done_above
    return report


def _in_calm(
    cluster: LocalCluster, truth: Truth, adversary: ScheduleAdversary, report: ScheduleReport
) -> None:
    """Finish all messages without faults in bounded time. The last zombies resume at the end."""

    def is_done() -> bool:
        _expect_no_violation(truth)
        return len(truth.finished) == truth.messages

    done = work_in_calm(cluster, adversary, is_done, lambda: _let_pass(cluster, TIMEOUT / 2))
    missing = sorted(set(range(truth.messages)) - truth.finished)
    _expect(
        done,
        f"messages {missing} were not acked within {MOST_ROUNDS / 2:g} timeouts after the last fault",
    )
    report.seconds = cluster.now


def _let_pass(cluster: LocalCluster, seconds: float) -> None:
    """Let time pass, and do everything that becomes due."""
    until = cluster.now + seconds
    # In each stride, tuples that wait for a tick advance by one bolt.
    while cluster.now < until:
        cluster.advance_time(min(TICK_SECS, until - cluster.now), run=False)
        cluster.run_until_idle()
    cluster.checkpoint()


def _reckon(cluster: LocalCluster, truth: Truth, source: SourceTopic | None) -> None:
    """Check that nothing is left, and that every state contains the acked messages."""
    settled = 0
    for _ in range(MOST_ROUNDS // 2):
        # A message is still replayed if only a zombie received its ack.
        settled += not cluster.pending
        _let_pass(cluster, TIMEOUT)
        left = {"open trees": cluster.open_trees, "pending": cluster.pending}
        left["processes with something on its way"] = cluster.unsettled
        # If nothing is left, nothing new can appear.
        if settled == _MOST_REMAINS or not any(left.values()):
            break
    _expect_no_violation(truth)
    if not truth.tracked:
        unexecuted = [
            message
            for message, attempts in truth.attempts.items()
            if not all(map(truth.done, attempts))
        ]
        _expect(
            not unexecuted,
            f"messages {unexecuted} were handed on, and not all of their tuples were executed",
        )
    left["strange dead letters"] = sum(
        source is None or letter.topic != TOPIC for letter in cluster.dead_letters
    )
    _expect(not any(left.values()), f"when all was done there were left: {left}")
    if source is not None:
        unfair = source.zookeeper.unfair
        _expect(not unfair, f"sessions were fenced from {unfair}, and held the lock all the time")
        halves = source.halves()
        _expect(not halves, f"of {halves} some tuples were emitted, and others not")
    strange = [error for error in cluster.errors if "as told" not in str(error.error)]
    _expect(not strange, f"errors that no component was told to make: {strange}")
    ends = cluster.seen["process ended by the user's code"] - truth.ends
    _expect(
        not ends, f"{ends} processes ended as the user's code raised where that must not end them"
    )
    for spec in cluster.topology.bolts:
        cluster.crash(spec.id)  # the recovered state must be right
        tasks = [cluster.instance(spec.id, task) for task in range(spec.num_tasks)]
        tallies = [task for task in tasks if isinstance(task, Tally)]
        kept = {message for task in tallies for message in task.counted()}
        _expect(
            all(len(task.newest()) <= 1 for task in tallies),
            f"keys that {spec.id!r} had deleted came back",
        )
        counted = {message for component, message in truth.counted if component == spec.id}
        # A message that was not acked is a dead letter, and may have succeeded only on a zombie.
        lost = sorted((counted & truth.acked) - kept)
        _expect(
            not lost,
            f"messages {lost} were counted and acked, and are not in the state of {spec.id!r}",
        )


def _expect_no_violation(truth: Truth) -> None:
    _expect(not truth.violations, "; ".join(truth.violations))


def limit_intake(cluster: LocalCluster, chance: Random) -> None:
    """In a third of the schedules, let a process take so little input that it often has to pause.

    In another third, let it take so much that polls wait in the engine, which joins them.
    """
    kind = chance.choice(["little", "much", "one poll"])
    if kind != "one poll":
        high = chance.randint(1, 4) if kind == "little" else chance.randint(5, 50)
        cluster.limit_intake(high, chance.randint(0, high))


def _expect(held: bool, else_say: str) -> None:
    if not held:
        raise ViolationError(else_say)
