"""Rebuilds trees from the records of a simulated cluster, and compares them with the truth.

For each tree that an acker reports as complete, the log proves it. For each open tree, the tuples
that it supposedly waits for were not acked according to `tests.sim.acks`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from kstorm.core.wire import AckFrame, CompletionFrame, decode, unpack_ids
from kstorm.introspection.outline import Outline
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.blocking_tuples import BlockReason
from kstorm.operations.trees.facts import MessageFacts, MessageId
from kstorm.operations.trees.open_edges import OpenEdges, open_edges
from kstorm.operations.trees.tree import Tree, build
from kstorm.operations.trees.tree_reader import TopicRecord, TreeReader
from kstorm.operations.trees.verdict import VerdictKind, verdict_on
from kstorm.operations.trees.xor_solver import MOST_UNKNOWN
from kstorm.testing.cluster import LocalCluster
from kstorm.topology import Topology
from tests.sim.acks import Acknowledged, records_of, watch_acks
from tests.sim.exactly_once.world import exact_topology, strike
from tests.sim.faults import CALM, DRAWN, FaultMix, ScheduleAdversary, work_among_faults
from tests.sim.kafka_source import SourceTopic
from tests.sim.topologies import random_topology
from tests.sim.truth import Truth


@dataclass
class Rebuilt:
    """The number of examined trees, and the conclusions about them."""

    acked: int = 0
    said: Counter[str] = field(default_factory=Counter)
    """Conclusions about open trees."""
    told_apart: int = 0
    """Complete trees all of whose acks could be distinguished."""


def check_trees(cluster: LocalCluster, acks: Acknowledged, rebuilt: Rebuilt) -> None:
    """Raise `AssertionError` that names a wrong tree."""
    topology = cluster.topology
    shape = outline_of(topology)
    records = list(_records(cluster))
    acked = set(_acked(records, topology))
    for root in sorted({*acked, *_begun(records, topology)}):
        tree = rebuild(shape, records, root)
        if root in acked:
            assert tree.proof.closed, (
                f"the tree {root:x} was acked, and is not proven: {tree.proof}"
            )
            rebuilt.acked += 1
            rebuilt.told_apart += all(tree.entries.get(number) for number in tree.proof.counted)
        elif tree.outcome == "open" and tree.proof.begun:
            waiting = open_edges(tree)
            _check_open(tree, waiting, acks.of(cluster, root), acks.sent[root])
            rebuilt.said[_said(waiting)] += 1
            _check_verdict(cluster, tree, acks.of(cluster, root))


def rebuild(topology: Outline, records: list[TopicRecord], root: int) -> Tree:
    gatherer = TreeReader(topology, root)
    for record in records:
        gatherer.take(record)
    assert not gatherer.found.unreadable
    return build(gatherer.found)


def _check_open(tree: Tree, waiting: OpenEdges, acked: Counter[int], sent: set[int]) -> None:
    about = f"the tree {tree.root:x}, {waiting}"
    truly = [edge for edge in tree.tuples if not acked[edge]]
    assert _said(waiting) != "nothing", f"{about}: it is open, and nothing is said"
    for edge in waiting.unacked:
        assert not acked[edge], f"{about}: {edge:x} was acked"
    for edge in waiting.twice:
        assert acked[edge] > 1, f"{about}: {edge:x} was acked {acked[edge]} times"
    for edge in waiting.strange:
        assert acked[edge], f"{about}: {edge:x} was not acked"
    if (waiting.among or waiting.lost) and len(tree.tuples) <= MOST_UNKNOWN:
        on_its_way = sent - tree.tuples.keys()
        assert set(truly) & set(waiting.among) or (waiting.lost and on_its_way), (
            f"{about}: all of these are acked"
        )


def _check_verdict(cluster: LocalCluster, tree: Tree, acked: Counter[int]) -> None:
    """Check that tuples which `kstorm why` reports as held or queued were not acked."""
    world = cluster.processes(cluster.topology.spouts[0].id)[0].world
    places = [place for place in world.logs.places() if place[0] in cluster.topology.topics()]
    committed = {place: world.logs.committed(place) for place in places}
    verdict = verdict_on(
        MessageId("m", 0, 0), [tree], MessageFacts(now=0, timeout_ms=1000, committed=committed)
    )
    assert verdict.kind not in (VerdictKind.DONE, VerdictKind.NOT_STORED, VerdictKind.ACKER), (
        f"the tree {tree.root:x} is open: {verdict}"
    )
    for blocked in verdict.blocked:
        if blocked.cause in (BlockReason.HELD, BlockReason.QUEUED):
            assert not acked[int(blocked.edge, 16)], f"the tree {tree.root:x}: acked is {blocked}"


def _said(waiting: OpenEdges) -> str:
    for kind in ("unacked", "twice", "doubtful", "strange", "among"):
        if getattr(waiting, kind):
            return kind
    return "lost" if waiting.lost else "nothing"


def _records(cluster: LocalCluster) -> Iterator[TopicRecord]:
    for topic, partitions in cluster.topology.topics().items():
        for partition in range(partitions):
            for offset, value in records_of(cluster, topic, partition):
                yield TopicRecord(topic, partition, offset, 0, value)


def _acked(records: list[TopicRecord], topology: Topology) -> Iterator[int]:
    topics = {topology.completions_topic(spout.id) for spout in topology.spouts}
    for record in records:
        if record.topic in topics:
            yield from unpack_ids(decode(CompletionFrame, record.value).acked)


def _begun(records: list[TopicRecord], topology: Topology) -> Iterator[int]:
    for record in records:
        if record.topic == topology.acker_topic:
            yield from unpack_ids(decode(AckFrame, record.value).init_roots)


def explore_trees(seed: int, rebuilt: Rebuilt | None = None) -> Rebuilt:
    """Run a schedule among faults. Abort it at any moment, or when all processes are idle."""
    rebuilt = rebuilt or Rebuilt()
    random = Random(f"trees {seed}")
    fault_mix = random.choice(
        [fault_mix for fault_mix in DRAWN if fault_mix is not FaultMix.UNTRACKED]
    )
    truth = Truth(messages=random.randint(3, 10))
    source = (
        SourceTopic(random, truth, random.choice((1, 2, 3)))
        if random.random() < _WITH_KAFKA
        else None
    )
    topology = random_topology(random, truth, source, fault_mix in CALM)
    resources = {} if source is None else source.resources
    with watch_acks() as acks, LocalCluster(topology, seed, resources, at_once=False) as cluster:
        if source is not None:
            source.letters = lambda: cluster.sent(topology.dead_letters_topic)
        adversary = ScheduleAdversary(cluster, source, random, fault_mix, truth.forget)
        work_among_faults(cluster, adversary, random.choice((0, 150, 300)))
        adversary.end()
        _go_on(cluster, random)
        _check(seed, cluster, acks, rebuilt)
    return rebuilt


def explore_exact_trees(seed: int, rebuilt: Rebuilt | None = None) -> Rebuilt:
    """Do the same for an exactly-once topology.

    No open tree of it may look as if a tuple had been executed twice.
    """
    rebuilt = rebuilt or Rebuilt()
    random = Random(f"exact trees {seed}")
    topology = exact_topology(random)
    names = [*topology.components, *(["acker"] if topology.config.acker_tasks else [])]
    with watch_acks() as acks, LocalCluster(topology, seed, at_once=False) as cluster:
        for _ in range(random.choice((10, 60))):
            for _ in range(random.randint(1, 12)):
                cluster.step()
            strike(cluster, random.choice(names), random)
        cluster.heal()
        cluster.bury()
        _go_on(cluster, random)
        before = Counter(rebuilt.said)
        _check(seed, cluster, acks, rebuilt)
        strange = {
            kind: count
            for kind, count in (rebuilt.said - before).items()
            if kind in ("twice", "strange")
        }
        assert not strange, f"seed {seed}: of open trees it is said {strange}, exactly once"
    return rebuilt


def _go_on(cluster: LocalCluster, random: Random) -> None:
    if random.random() < _UNTIL_IDLE:
        cluster.run_until_idle()
    else:
        for _ in range(random.randrange(300)):
            cluster.step()


def _check(seed: int, cluster: LocalCluster, acks: Acknowledged, rebuilt: Rebuilt) -> None:
    try:
        check_trees(cluster, acks, rebuilt)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from None


_WITH_KAFKA, _UNTIL_IDLE = 0.3, 0.5
