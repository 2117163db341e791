"""One seeded schedule of an exactly-once topology, and the final check: everything counts once."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import KstormError
from kstorm.testing import LocalCluster
from kstorm.testing.world import discard_narration
from kstorm.topology import Config, Topology, TopologyBuilder
from kstorm.topology.config import EXACTLY_ONCE
from tests.sim.exactly_once.components import (
    PARTS,
    STREAMS,
    Count,
    CountBatches,
    End,
    Join,
    JoinBatches,
    Messages,
    RandomErrors,
    Split,
    SplitBatches,
)
from tests.sim.schedule import ScheduleReport, ViolationError, limit_intake

MESSAGES = 12
_PARTITIONS = 2
_FAULTS = 300
_ROUNDS = 80  # seconds of calm, at most
# Seconds without anything left to do: longer than an abandoned transaction can be open.
_QUIET = 20


def explore_exactly_once(
    seed: int, tell: Callable[[str], None] = discard_narration
) -> ScheduleReport:
    """Run the schedule of a seed. Raises `ViolationError`."""
    report = ScheduleReport(seed, MESSAGES, steps=_FAULTS)
    random = Random(f"exactly once {seed}")
    topology = exact_topology(random)
    with LocalCluster(topology, seed, tell=tell, at_once=False) as cluster:
        try:
            limit_intake(cluster, Random(f"intake {seed}"))
            cluster.disturb(unanswered=random.choice((0.0, 0.1)))
            report.faults = _among_faults(cluster, random)
            _come_to_rest(cluster)
            _reckon(cluster)
        except (ViolationError, KstormError) as error:
            raise ViolationError(f"seed {seed}: {error}") from None
        del report.faults["nothing"]
        report.seen, report.seconds = cluster.seen, cluster.now
        report.executions = sum(
            len(cluster.sent(topology.bolt_topic(end))) for end in ("counted", "joined", "parts")
        )
    return report


def exact_topology(random: Random) -> Topology:
    """Words are counted, and their halves joined."""
    config = Config(
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_acker_executors=random.choice([0, 1, 2]),
        topology_acker_tasks=2,
        topology_message_timeout_secs=1,  # many faults last longer
        topology_bolt_retry_limit=1000,
        topology_bolt_retry_initial_delay_ms=10,
        topology_bolt_retry_delay_max_ms=100,
    )
    log = [list(range(partition, MESSAGES, _PARTITIONS)) for partition in range(_PARTITIONS)]
    trouble = RandomErrors(Random(random.random()))
    builder = TopologyBuilder("exact", config)
    builder.set_spout("messages", Messages(log), random.choice([1, 2])).set_num_tasks(2)
    split = random.choice((Split, SplitBatches))(trouble)
    count = random.choice((Count, CountBatches))(trouble)
    join = random.choice((Join, JoinBatches))(trouble)
    builder.set_bolt("split", split, random.choice([1, 2])).set_num_tasks(2).shuffle_grouping(
        "messages"
    )
    counting, joining = builder.set_bolt("count", count, 2), builder.set_bolt("join", join, 2)
    for stream in STREAMS:
        counting.fields_grouping("split", "key", stream)
        joining.fields_grouping("split", "id", stream)
    builder.set_bolt("counted", End()).shuffle_grouping("count")
    builder.set_bolt("joined", End()).shuffle_grouping("join")
    builder.set_bolt("parts", End()).shuffle_grouping("join", "parts")
    return builder.build()


def _among_faults(cluster: LocalCluster, random: Random) -> Counter[str]:
    struck: Counter[str] = Counter()
    names = [
        *cluster.topology.components,
        *(["acker"] if cluster.topology.config.acker_tasks else []),
    ]
    for _ in range(_FAULTS):
        for _ in range(random.randint(1, 12)):
            cluster.step()
        fault = strike(cluster, random.choice(names), random)
        struck[fault] += 1
    cluster.disturb()
    cluster.heal()
    cluster.bury()
    return struck


def strike(cluster: LocalCluster, name: str, random: Random) -> str:
    """Apply one fault to a component, and return its name."""
    tasks = cluster.topology.component(name).num_tasks if name != "acker" else 2
    process = random.randrange(cluster.executors(name))
    faults: dict[str, tuple[int, Callable[[], object]]] = {
        "kill": (10, lambda: cluster.crash(name, process, random.choice(["kept", "lost", "old"]))),
        "zombie": (6, lambda: cluster.pause(name, process)),
        "scale": (4, lambda: cluster.scale(name, random.randint(1, tasks))),
        "epoch": (20, cluster.begin_checkpoint),
        "compaction": (3, cluster.compact),
        "time": (3, lambda: cluster.advance_time(random.random() * 5, run=False)),
        "stall": (4, lambda: cluster.stall(*(cluster.any_place(random) or ("none", 0)))),
        "heal": (5, cluster.heal),
        "nothing": (45, lambda: None),
    }
    (chosen,) = random.choices(list(faults), [weight for weight, _ in faults.values()])
    faults[chosen][1]()
    return chosen


def _come_to_rest(cluster: LocalCluster) -> None:
    quiet = 0
    for _ in range(_ROUNDS):
        cluster.advance_time(1.0)
        quiet = 0 if any(_left(cluster).values()) else quiet + 1
        if quiet == _QUIET:
            break


def _left(cluster: LocalCluster) -> dict[str, int]:
    return {
        "pending": cluster.pending,
        "open trees": cluster.open_trees,
        "unsettled": cluster.unsettled,
    }


def _reckon(cluster: LocalCluster) -> None:
    topology = cluster.topology
    parts = [(number, part) for number in range(MESSAGES) for part in range(PARTS)]
    counted = list(rows(cluster, topology.bolt_topic("counted")))
    expect_once("counted", ((number, part) for number, _, part, _ in counted), parts)
    expect_once(
        "joined",
        (number for (number,) in rows(cluster, topology.bolt_topic("joined"))),
        range(MESSAGES),
    )
    expect_once("parts", rows(cluster, topology.bolt_topic("parts")), parts)
    by_key = expect_counts((key, count) for _, key, _, count in counted)
    left = {**_left(cluster), "dead letters": len(cluster.dead_letters)}
    expect(not any(left.values()), f"when all was done there were left: {left}")
    cluster.crash("count", disk="lost")  # the recovered state must be right
    for task in range(2):
        state = cluster.instance("count", task).state  # type: ignore[union-attr]
        for key, found in state.items():
            expect(len(found) == len(by_key.get(key, [])), f"the state of {key!r} has {found}")


def rows(cluster: LocalCluster, topic: str) -> Iterable[tuple[Any, ...]]:
    """Yield the committed tuples of a topic."""
    for value in cluster.sent(topic):
        yield from zip(*decode(TupleFrame, value).columns, strict=True)


def expect_once(what: str, found: Iterable[Any], wanted: Iterable[Any]) -> None:
    """Check that each wanted item is there exactly once, and nothing else."""
    found, wanted = Counter(found), Counter(wanted)
    expect(
        found == wanted, f"{what}: too many {dict(found - wanted)}, missing {dict(wanted - found)}"
    )


def expect_counts(found: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Check that each key was counted 1, 2, … n, in any order. Return the counts by key."""
    by_key: dict[str, list[int]] = {}
    for key, count in found:
        by_key.setdefault(key, []).append(count)
    for key, counts in by_key.items():
        expect(
            sorted(counts) == list(range(1, len(counts) + 1)),
            f"the counts of {key!r} are {sorted(counts)}",
        )
    return by_key


def expect(held: bool, else_say: str) -> None:
    """Raise `ViolationError` unless the condition held."""
    if not held:
        raise ViolationError(else_say)
