"""One seeded schedule: a random topology, messages, crashes at random steps; then calm, and the reckoning."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from kstorm.testing.cluster import LocalCluster
from kstorm.testing.simulation.components import Tally
from kstorm.testing.simulation.topologies import TIMEOUT, random_topology
from kstorm.testing.simulation.truth import Truth
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_MOST_ROUNDS = 60
"""Half timeouts until which every message must be acked once faults have stopped."""


class ViolationError(AssertionError):
    """The guarantee was broken; the message says how, and by which seed."""


@dataclass
class Report:
    """What one schedule was."""

    seed: int
    messages: int
    attempts: int = 0
    """Spout tuples emitted: more than messages where some were replayed."""
    executions: int = 0
    """Tuples executed and acked by bolts."""
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """Crashes by role, checkpoints begun, stalls."""
    seconds: float = 0.0
    """Virtual time until everything was done."""


def run_schedule(seed: int, tell: Callable[[str], None] = lambda line: None) -> Report:
    """Draws a topology and a schedule from a seed and runs it; `tell` hears its story. Raises `ViolationError`."""
    random = Random(f"schedule {seed}")
    truth = Truth(messages=random.randint(3, 10))
    return run_topology(
        random_topology(random, truth), truth, seed, fault_steps=random.choice((0, 150, 300)), tell=tell
    )


def run_topology(
    topology: Topology, truth: Truth, seed: int, fault_steps: int, tell: Callable[[str], None] = lambda line: None
) -> Report:
    """Runs a topology of simulated components through so many steps among faults, then until all is done."""
    report = Report(seed, truth.messages)
    with LocalCluster(topology, seed, tell=tell) as cluster:
        try:
            _among_faults(cluster, truth, report, Random(f"faults {seed}"), fault_steps)
            _in_calm(cluster, truth, report)
            _reckon(cluster, truth)
        except ViolationError as error:
            raise ViolationError(f"seed {seed}: {error}") from None
    report.attempts, report.executions = truth.attempts, truth.executions
    return report


def _among_faults(cluster: LocalCluster, truth: Truth, report: Report, random: Random, steps: int) -> None:
    names = [*cluster.topology.components, ACKER_COMPONENT, ACKER_COMPONENT]
    for _ in range(steps):
        report.steps += 1
        chance = random.random()
        if chance < 0.015:
            _crash(cluster, report, random, random.choice(names))
        elif chance < 0.019:
            cluster.bury()
        elif chance < 0.05:
            cluster.begin_checkpoint(random.choice(names))
            report.faults["checkpoint"] += 1
        elif chance < 0.055 or not cluster.step():
            cluster.advance_time(random.uniform(1, TIMEOUT / 2), run=False)
            report.faults["stall"] += 1
        _expect_no_violation(truth)


def _crash(cluster: LocalCluster, report: Report, random: Random, name: str) -> None:
    if name == ACKER_COMPONENT:
        role, executors = "acker", cluster.topology.config.topology_acker_executors
    else:
        spec = cluster.topology.component(name)
        role, executors = spec.kind, spec.parallelism
    executor = random.randrange(executors)
    if role != "spout" and random.random() < 0.3:
        cluster.pause(name, executor)
        report.faults[f"zombie of a {role}"] += 1
    else:
        cluster.crash(name, executor)
        report.faults[f"crash of a {role}"] += 1


def _in_calm(cluster: LocalCluster, truth: Truth, report: Report) -> None:
    """Faults have stopped: every message is acked, in bounded time; the last zombies wake up when all is quiet."""
    for _ in range(_MOST_ROUNDS):
        cluster.run_until_idle()
        _expect_no_violation(truth)
        if len(truth.finished) == truth.messages:
            report.seconds = cluster.now
            return
        cluster.advance_time(TIMEOUT / 2)
    missing = sorted(set(range(truth.messages)) - truth.finished)
    raise ViolationError(f"messages {missing} were not acked within {_MOST_ROUNDS / 2:g} timeouts after the last fault")


def _reckon(cluster: LocalCluster, truth: Truth) -> None:
    """Nothing is left: no tree, no pending message; and what was acked is in every state that it should be in."""
    cluster.advance_time(4 * TIMEOUT)
    _expect_no_violation(truth)
    left = {"open trees": cluster.open_trees, "pending": cluster.pending, "dead letters": len(cluster.dead_letters)}
    _expect(not any(left.values()), f"when all was done there were left: {left}")
    strange = [error for error in cluster.errors if str(error.error) != "as told"]
    _expect(not strange, f"errors that no component was told to make: {strange}")
    for spec in cluster.topology.bolts:
        cluster.crash(spec.id)  # what counts is what is recovered
        tasks = [cluster.instance(spec.id, task) for task in range(spec.num_tasks)]
        kept = {message for task in tasks if isinstance(task, Tally) for message in task.counted()}
        lost = sorted(message for component, message in truth.counted if component == spec.id and message not in kept)
        _expect(not lost, f"messages {lost} were counted and acked, and are not in the state of {spec.id!r}")


def _expect_no_violation(truth: Truth) -> None:
    _expect(not truth.violations, "; ".join(truth.violations))


def _expect(held: bool, else_say: str) -> None:
    if not held:
        raise ViolationError(else_say)
