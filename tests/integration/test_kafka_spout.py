"""A complete `KafkaSpout` on a real broker and a real ZooKeeper, without the rest of the engine."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import LATEST_TIME, Broker, GlobalPartitionInformation, KafkaHosts, StaticHosts
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset, zookeeper_client


def test_next_process_resumes_where_the_last_one_stopped(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Acked messages are not emitted again. Unfinished ones are.

    The node has the format of Storm's documentation, followed by the finished ranges above the
    offset.
    """
    topic.create().produce(*(b"%d" % number for number in range(10)))
    first = SpoutProcess(topic, zookeeper.connect)
    first.until(lambda: len(first.collector.emitted) == 10)
    for offset in (0, 1, 2, 3, 5, 9):
        first.spout.ack(first.collector.emitted[offset])
    first.stop()
    host, port = topic.kafka.bootstrap.split(":")
    assert stored_offset(zookeeper.connect, topic) == {
        "topology": {"id": "words-1", "name": "words"},
        "offset": 4,
        "partition": 0,
        "broker": {"host": host, "port": int(port)},
        "topic": topic.name,
        "done": [[5, 6], [9, 10]],
    }
    second = SpoutProcess(topic, zookeeper.connect, start_offset_time=LATEST_TIME)
    topic.produce(b"10")
    second.until(lambda: 10 in second.collector.emitted)
    assert second.collector.values == ["4", "6", "7", "8", "10"]
    for offset in (4, 6, 7, 8, 10):
        second.spout.ack(second.collector.emitted[offset])
    second.stop()
    assert "done" not in stored_offset(zookeeper.connect, topic)
    assert stored_offset(zookeeper.connect, topic)["offset"] == 11


def test_two_processes_never_read_one_partition(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """The second process waits for the lock, and takes over when the first is closed.

    Finally the lag is 0.
    """
    topic.create().produce(*(b"%d" % number for number in range(5)))
    first = SpoutProcess(topic, zookeeper.connect)
    first.until(lambda: len(first.collector.emitted) == 5)
    second = SpoutProcess(topic, zookeeper.connect)
    for id in first.collector.emitted.values():
        first.spout.ack(id)
    topic.produce(b"5")
    first.until(lambda: len(first.collector.emitted) == 6)
    for _ in range(50):
        second.next_tuple()
        time.sleep(0.01)
    assert second.collector.emitted == {}
    first.stop()
    second.until(lambda: 5 in second.collector.emitted)
    assert sorted(second.collector.emitted) == [5]
    second.spout.ack(second.collector.emitted[5])
    assert second.spout.metrics()["lag"] == 0
    second.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 6


def test_transaction_markers_do_not_block_the_offset(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Aborted messages are never emitted, and do not block the offset either (STORM-2505)."""
    topic.create()
    producer = Producer({**topic.client_config, "transactional.id": topic.name})
    producer.init_transactions(30)
    for values, end in (
        ((b"a", b"b"), producer.commit_transaction),
        ((b"x", b"y"), producer.abort_transaction),
        ((b"c",), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic.name, value)
        assert producer.flush(30) == 0  # the broker has all records, even aborted ones
        end(30)
    process = SpoutProcess(topic, zookeeper.connect)
    process.until(lambda: len(process.collector.values) == 3)
    assert process.collector.values == ["a", "b", "c"]
    for id in process.collector.emitted.values():
        process.spout.ack(id)
    process.stop()
    last = max(process.collector.emitted)
    assert last == 6
    assert stored_offset(zookeeper.connect, topic)["offset"] == last + 1


def test_undecodable_message_does_not_block_later_ones(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """It becomes a dead letter, and the next message is emitted."""
    topic.create().produce(b"\xff", b"good")
    process = SpoutProcess(topic, zookeeper.connect)
    process.until(lambda: process.collector.values == ["good"])
    assert process.collector.letters == [0]
    process.spout.ack(process.collector.emitted[1])
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 2


def test_recreated_topic_is_read_from_its_start(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """It has fewer messages than the stored offset.

    The spout starts over instead of waiting forever.
    """
    topic.create().produce(*(b"%d" % number for number in range(8)))
    process = SpoutProcess(topic, zookeeper.connect)
    process.until(lambda: len(process.collector.emitted) == 8)
    for id in process.collector.emitted.values():
        process.spout.ack(id)
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 8
    admin = AdminClient(topic.client_config)
    admin.delete_topics([topic.name])[topic.name].result(30)
    eventually(lambda: topic.name not in admin.list_topics(timeout=10).topics, 20)
    topic.create().produce(b"new")
    process = SpoutProcess(topic, zookeeper.connect)
    process.until(lambda: process.collector.values == ["new"])
    process.spout.ack(process.collector.emitted[0])
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 1


@pytest.mark.slow
def test_static_hosts_limit_partitions_and_brokers(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """The spout uses the named brokers, not those of the service.

    Another spout may read the other partition.
    """
    topic.create(2).produce(b"mine", partition=1)
    topic.produce(b"not mine", partition=0)
    information = GlobalPartitionInformation(
        topic.name, {1: Broker.from_string(topic.kafka.bootstrap)}
    )
    process = SpoutProcess(
        topic, zookeeper.connect, hosts=StaticHosts(information), client_config={}
    )
    process.until(lambda: process.collector.values)
    topic.produce(b"more", partition=1)
    process.until(lambda: len(process.collector.values) > 1)
    assert process.collector.values == ["mine", "more"]
    process.stop()


@pytest.mark.slow
def test_matching_topics_have_separate_nodes(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """Partition 0 of each topic has its own lock and offset.

    New topics are found, deleted ones released.
    """
    names = [f"{topic.name}-{letter}" for letter in "ba"]
    process = SpoutProcess(
        topic,
        zookeeper.connect,
        hosts=KafkaHosts(refresh_freq_secs=0.5),
        pattern=f"{topic.name}-.",
        max_uncommitted_offsets=100,
    )
    for name in names:
        Topic(name, topic.kafka).create().produce(
            *(name.encode() for _ in range(1 + names.index(name)))
        )
        process.until(lambda name=name: name in process.collector.values)  # type: ignore[misc]
    process.until(lambda: len(process.collector.values) == 3)
    assert sorted(process.collector.values) == sorted([names[0], names[1], names[1]])
    for id in process.collector.ids:
        process.spout.ack(id)
    root = topic.config().zk_path
    with zookeeper_client(zookeeper.connect) as client:

        def stored(name: str) -> Any:
            process.next_tuple()
            node = f"{root}/{name}/partition_0"
            content = client.get(node)[0] if client.exists(node) else b""
            return json.loads(content)["offset"] if content else None

        eventually(lambda: [stored(name) for name in names] == [1, 2], 20)
        locks = [f"{root}/{name}/locks/partition_0" for name in names]
        assert all(client.exists(lock) for lock in locks)
        admin = AdminClient(topic.client_config)
        admin.delete_topics([names[1]])[names[1]].result(30)
        process.until(lambda: not client.exists(locks[1]))
        assert client.exists(locks[0])
    Topic(names[0], topic.kafka).produce(b"goes on")
    process.until(lambda: "goes on" in process.collector.values)
    assert len(process.collector.values) == 4
    process.stop()
