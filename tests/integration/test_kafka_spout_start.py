"""The start offset of a `KafkaSpout`, by its settings and the stored offsets in a real ZooKeeper."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME, KafkaHosts
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset, zookeeper_client


@pytest.mark.parametrize(
    ("time", "first"),
    [(EARLIEST_TIME, 0), (1000, 0), (1001, 1), (2000, 1), (2001, 3), (LATEST_TIME, 3)],
)
def test_start_offset_time(
    topic: Topic, zookeeper: EmbeddedZooKeeper, time: int, first: int
) -> None:
    """Without a stored offset the spout starts at the first message of this time or later.

    It stores the offset at once.
    """
    topic.create(retention_ms="-1")  # otherwise the broker may delete old records at any moment
    for stamp in (1000, 2000, 1500):
        topic.produce(b"old", timestamp=stamp)
    process = SpoutProcess(topic, zookeeper.connect, start_offset_time=time)
    process.until_stored(first)
    topic.produce(b"new")
    process.until(lambda: "new" in process.collector.values)
    assert sorted(process.collector.emitted) == list(range(first, 4))
    process.stop()


def test_processes_that_die_before_a_store_lose_nothing(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Several processes in a row take over the lock and the same offset (STORM-2675, STORM-3337)."""
    topic.create().produce(*(b"%d" % number for number in range(6)))
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(6)
    process.ack(0, 1, 2, 3)
    process.until_stored(4)
    process.stores.close()  # like kill -9, after ZooKeeper has noticed
    for _ in range(3):
        process = SpoutProcess(topic, zookeeper.connect, start_offset_time=LATEST_TIME)
        process.emit(2)
        assert process.collector.values == ["4", "5"]
        assert stored_offset(zookeeper.connect, topic)["offset"] == 4
        process.stores.close()


@pytest.mark.slow
def test_spout_has_only_offset_and_lock_in_zookeeper(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Without progress it writes nothing (STORM-376, STORM-1949)."""
    topic.create().produce(*[b"x"] * 10)
    process = SpoutProcess(
        topic, zookeeper.connect, max_uncommitted_offsets=3, state_update_interval_ms=1
    )
    process.emit(3)
    process.until_stored(0)
    root = topic.config().zk_path
    with zookeeper_client(zookeeper.connect) as client:
        before = client.get(f"{root}/partition_0")[1].version
        for _ in range(200):
            process.next_tuple()
        assert process.spout.metrics()["throttled"] == 1
        process.ack(0)
        process.until_stored(1)
        assert client.get(f"{root}/partition_0")[1].version == before + 1
        assert sorted(client.get_children(root)) == ["locks", "partition_0"]
        assert client.get_children(f"{root}/locks") == ["partition_0"]
    process.stop()


@pytest.mark.slow
def test_group_with_the_spouts_id_shows_its_offset(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """Lag tools see the offset of ZooKeeper, during the work and after a stop."""
    topic.create().produce(*[b"x"] * 10)
    process = SpoutProcess(topic, zookeeper.connect)
    onlooker = Consumer({**topic.client_config, "group.id": topic.config().id})

    def shown() -> int:
        process.next_tuple()
        return int(onlooker.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset)

    process.emit(10)
    process.ack(0, 1, 2)
    eventually(lambda: shown() == 3, 20)
    process.ack(3)
    process.stop()
    eventually(
        lambda: onlooker.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset == 4, 20
    )
    assert stored_offset(zookeeper.connect, topic)["offset"] == 4
    onlooker.close()


@pytest.mark.slow
def test_new_topics_and_partitions_are_read_from_the_start(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """The topic did not exist when the spout started. Later it gets a partition."""
    hosts = KafkaHosts(refresh_freq_secs=1)
    process = SpoutProcess(topic, zookeeper.connect, start_offset_time=LATEST_TIME, hosts=hosts)
    process.until(lambda: process.collector.errors)
    topic.create().produce(b"first", b"second")
    process.until(lambda: process.collector.values == ["first", "second"])
    admin = AdminClient(topic.client_config)
    admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(30)
    topic.produce(b"third", partition=1)
    process.until(lambda: process.collector.values == ["first", "second", "third"])
    process.stop()
    topic.produce(b"fourth", partition=1)
    process = SpoutProcess(topic, zookeeper.connect, start_offset_time=LATEST_TIME, hosts=hosts)
    process.until(
        lambda: sorted(process.collector.values) == ["first", "fourth", "second", "third"]
    )
    process.stop()
