"""A small exactly-once world for rare events: a spout, a stateful bolt, and its output.

The bolt has one or two processes. Faults hit only these, mostly during a transaction. Transaction
requests are lost, arrive late, or lose their answers. Tuples fail, and some become dead letters. In
the end each message is counted in exactly one committed record, or is in exactly one dead letter.
"""

import json
from collections import Counter
from collections.abc import Callable
from random import Random

from kstorm.errors import KstormError
from kstorm.testing import LocalCluster
from kstorm.testing.placement import DiskFate, Heir
from kstorm.testing.unfinished_work import unfinished_tasks
from kstorm.testing.world import SimulatedWorld, discard_narration
from kstorm.topology import (
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.sim.exactly_once.components import End, Messages, RandomErrors
from tests.sim.exactly_once.world import expect_counts, expect_once, rows
from tests.sim.schedule import ScheduleReport, ViolationError

_MESSAGES = 6
BOLT = "count"
_ROUNDS = 12  # seconds of calm, at most
_HEIRS: tuple[Heir, ...] = ("stranger", "namesake", "others")
_DISKS: tuple[DiskFate, ...] = ("kept", "kept", "lost", "old")


class Tally(StatefulBasicBolt):
    """Counts by key. May raise after the tuple is in the state."""

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The counted tuple, and its key's count."""
        declarer.declare("id", "key", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """May raise after its effects."""
        count = self.state.get(tuple["key"], 0) + 1
        self.state.put(tuple["key"], count)
        collector.emit((*tuple.values, count))
        self._trouble.maybe()


def explore_small_world(
    seed: int,
    tell: Callable[[str], None] = discard_narration,
    look: Callable[[LocalCluster], object] = lambda cluster: None,
) -> ScheduleReport:
    """Run the schedule of a seed, and call `look` after each step among faults.

    Raises `ViolationError`.
    """
    random = Random(f"small {seed}")
    steps = random.choice((30, 60, 120))
    report = ScheduleReport(seed, _MESSAGES, steps=steps)
    with LocalCluster(_topology(random), seed, tell=tell, at_once=False) as cluster:
        try:
            cluster.disturb(unanswered=random.choice((0.0, 0.3)))
            _world(cluster).sluggish = random.choice((0.0, 0.95))
            report.faults = _among_faults(cluster, random, steps, look)
            _in_calm(cluster)
            _reckon(cluster)
        except (ViolationError, KstormError) as error:
            raise ViolationError(f"seed {seed}: {error}") from None
        report.seen, report.seconds = cluster.seen, cluster.now
    return report


def _topology(random: Random) -> Topology:
    config = Config(
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_acker_executors=0,
        topology_bolt_retry_limit=1,
        topology_bolt_retry_initial_delay_ms=10,
    )
    trouble = RandomErrors(Random(random.random()), random.choice((0.0, 0.3)))
    builder = TopologyBuilder("small", config)
    builder.set_spout("messages", Messages([list(range(_MESSAGES))]))
    bolt = builder.set_bolt(BOLT, Tally(trouble), random.choice((1, 2))).set_num_tasks(2)
    bolt.fields_grouping("messages", "key")
    builder.set_bolt("counted", End()).shuffle_grouping(BOLT)
    return builder.build()


def _among_faults(
    cluster: LocalCluster, random: Random, steps: int, look: Callable[[LocalCluster], object]
) -> Counter[str]:
    struck: Counter[str] = Counter()
    for _ in range(steps):
        for _ in range(random.randint(1, 8)):
            cluster.step()
            look(cluster)
        struck[_strike(cluster, _victim(cluster, random), random)] += 1
    return struck


def _strike(cluster: LocalCluster, number: int, random: Random) -> str:
    """Apply one fault, to this process if to any, and return its name."""
    faults: list[tuple[str, int, Callable[[], object]]] = [
        ("nothing", 40, lambda: None),
        ("epoch", 30, lambda: cluster.begin_checkpoint(BOLT)),
        ("kill", 4, lambda: cluster.crash(BOLT, number, random.choice(_DISKS))),
        (
            "zombie",
            8,
            lambda: cluster.pause(BOLT, number, random.choice(_HEIRS), random.random() < 0.7),
        ),
        ("scale", 8, lambda: cluster.scale(BOLT, random.randint(1, 2))),
        ("time", 10, lambda: cluster.advance_time(0.1, run=False)),
        ("stall", 3, lambda: cluster.stall(*(cluster.any_place(random) or ("none", 0)))),
        ("heal", 6, cluster.heal),
    ]
    ((name, _, strike),) = random.choices(faults, [weight for _, weight, _ in faults])
    strike()
    return name


def _victim(cluster: LocalCluster, random: Random) -> int:
    """Pick a process that is in a transaction, if there is one."""
    processes = cluster.processes(BOLT)
    amid = [number for number, process in enumerate(processes) if process.transacting is not None]
    return random.choice(amid or range(len(processes)))


def _in_calm(cluster: LocalCluster) -> None:
    cluster.disturb()
    cluster.heal()
    world = _world(cluster)
    world.sluggish = 0.0
    for _ in range(_ROUNDS):
        cluster.advance_time(1.0)
        if not any(unfinished_tasks(world)):
            break
    cluster.bury()


def _world(cluster: LocalCluster) -> SimulatedWorld:
    return cluster.processes(BOLT)[0].world


def _reckon(cluster: LocalCluster) -> None:
    counted = list(rows(cluster, cluster.topology.bolt_topic("counted")))
    letters = [json.loads(letter.value or b"{}")["values"]["id"] for letter in cluster.dead_letters]
    expect_once("counted", [number for number, _, _ in counted] + letters, range(_MESSAGES))
    expect_counts((key, count) for _, key, count in counted)
