"""New and removed partitions and topics: their discovery, and the effect on the others."""

from typing import TYPE_CHECKING, Any

import pytest

from kstorm.kafka import (
    Broker,
    BrokerHosts,
    GlobalPartitionInformation,
    KafkaHosts,
    KafkaSpout,
    Partition,
    StaticCoordinator,
    StaticHosts,
    ZkCoordinator,
    ZkHosts,
)
from kstorm.kafka.ports import SourceFault

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World

STATIC = StaticHosts(GlobalPartitionInformation("sentences", {0: Broker("broker", 9092)}))


def wildcard(world: "World", pattern: str = "logs-.*", **settings: Any) -> KafkaSpout:
    """Opens a spout on all topics that the expression matches, with a refresh every 30 s."""
    hosts = KafkaHosts(refresh_freq_secs=30)
    return world.open(topic=pattern, hosts=hosts, kafka_topic_wildcard_match=True, **settings)


def emitted(world: "World", spout: KafkaSpout) -> dict[tuple[str, int], Any]:
    """Returns the message ids that a few calls emit, by topic and offset."""
    for _ in range(5):
        spout.next_tuple()
    return {(id.partition.topic, id.offset): id for _, id in world.collector.take()}


@pytest.mark.parametrize(
    ("hosts", "kind"),
    [
        (KafkaHosts(), ZkCoordinator),
        (ZkHosts("z:2181"), ZkCoordinator),
        (STATIC, StaticCoordinator),
    ],
)
def test_the_hosts_decide_who_coordinates(
    world: "World", hosts: BrokerHosts, kind: type[object]
) -> None:
    """The spout never looks up static partitions again."""
    assert type(world.open(hosts=hosts)._coordinator) is kind


def test_static_partitions_are_taken_once(world: "World") -> None:
    """Neither time nor a failed fetch causes another look-up."""
    world.source.produce(0, 0)
    spout = world.open(hosts=STATIC)
    assert world.run(spout) == [0]
    world.source.waiting_faults.append(SourceFault("the leader moved", Partition("sentences", 0)))
    world.source.produce(0, 1)
    world.now += 100_000
    assert world.run(spout) == [1]
    world.now += 100_000
    world.run(spout)
    assert world.source.refreshes == 1


def test_every_topic_that_matches_is_read(world: "World") -> None:
    """Each message keeps its topic, and each topic has its own offset."""
    world.source.produce(0, 0, 1, topic="logs-a")
    world.source.produce(0, 0, topic="logs-b")
    spout = wildcard(world)
    ids = emitted(world, spout)
    assert sorted(ids) == [("logs-a", 0), ("logs-a", 1), ("logs-b", 0)]
    spout.ack(ids["logs-a", 0])
    spout.ack(ids["logs-b", 0])
    world.commit(spout)
    stored = {partition: stored.offset for partition, stored in world.offsets.stored.items()}
    assert stored == {Partition("logs-a", 0): 1, Partition("logs-b", 0): 1}


def test_new_topic_is_read_and_the_others_continue(world: "World") -> None:
    """The next refresh finds it, also if its name sorts first.

    Nothing is emitted twice, and earlier messages can still be acked.
    """
    world.source.produce(0, 0, 1, topic="logs-b")
    spout = wildcard(world)
    before = emitted(world, spout)
    manager = spout._coordinator.manager(Partition("logs-b", 0))
    world.source.produce(0, 0, topic="logs-a")
    assert emitted(world, spout) == {}
    world.now += 30
    assert list(emitted(world, spout)) == [("logs-a", 0)]
    assert spout._coordinator.manager(Partition("logs-b", 0)) is manager
    for id in before.values():
        spout.ack(id)
    world.commit(spout)
    assert world.offsets.stored[Partition("logs-b", 0)].offset == 2


def test_before_any_topic_matches_it_looks_more_often(world: "World") -> None:
    """It looks every two seconds and reports no error, because a topic may appear later."""
    spout = wildcard(world)
    assert emitted(world, spout) == {}
    assert world.collector.errors == []
    world.source.produce(0, 0, topic="logs-a")
    world.now += 2
    assert list(emitted(world, spout)) == [("logs-a", 0)]


def test_a_topic_that_is_gone_is_closed(world: "World") -> None:
    """Its progress is stored, its lock is free, and late acks are ignored.

    If the topic returns, reading continues at the stored offset.
    """
    world.source.produce(0, 0, 1, 2, topic="logs-a")
    world.source.produce(0, 0, topic="logs-b")
    spout = wildcard(world, state_update_interval_ms=3_600_000)
    ids = emitted(world, spout)
    spout.ack(ids["logs-a", 0])
    log = world.source.logs.pop(Partition("logs-a", 0))
    world.now += 30
    assert emitted(world, spout) == {}
    assert world.offsets.released == [Partition("logs-a", 0)]
    assert list(world.source.positions) == [Partition("logs-b", 0)]
    spout.ack(ids["logs-a", 1])
    world.source.logs[Partition("logs-a", 0)] = log
    world.now += 30
    assert list(emitted(world, spout)) == [("logs-a", 1), ("logs-a", 2)]


def test_its_own_topologys_topics_are_not_read(world: "World") -> None:
    """A spout that reads its bolts' input would never end, whatever the expression."""
    world.source.produce(0, 0, topic="words.sink")
    world.source.produce(0, 0, topic="words.letters")
    assert list(emitted(world, wildcard(world, ".*"))) == [("words.letters", 0)]
