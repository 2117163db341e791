"""A `KafkaSpout` after changes of the log and failed messages, on a real broker with real offsets."""

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs hide some
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import KafkaHosts
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset


def test_expired_messages_are_skipped(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """Retention has deleted the record of the stored offset.

    Reading continues at the oldest message.
    """
    topic.create().produce(*(b"%d" % number for number in range(10)))
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(10)
    process.ack(0, 1)
    process.stop()
    admin = AdminClient(topic.client_config)
    admin.delete_records([TopicPartition(topic.name, 0, 8)])[TopicPartition(topic.name, 0)].result(
        30
    )
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(2)
    assert process.collector.values == ["8", "9"]
    assert "cannot continue" in str(process.collector.errors[0])
    process.ack(8, 9)
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 10


@pytest.mark.slow
def test_deleted_and_recreated_topic_is_read_from_its_start(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """A running spout reports the missing topic, and then reads the new one."""
    topic.create().produce(*(b"%d" % number for number in range(5)))
    process = SpoutProcess(topic, zookeeper.connect, hosts=KafkaHosts(refresh_freq_secs=0.5))
    process.emit(5)
    process.ack(*range(5))
    process.until_stored(5)
    admin = AdminClient(topic.client_config)
    admin.delete_topics([topic.name])[topic.name].result(30)
    process.until(lambda: any(topic.name in str(error) for error in process.collector.errors))
    eventually(lambda: topic.name not in admin.list_topics(timeout=10).topics, 20)
    topic.create().produce(b"new", b"newer")
    process.until(lambda: len(process.collector.values) == 7, 60)
    assert process.collector.values[5:] == ["new", "newer"]
    process.ack(0, 1)
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 2


@pytest.mark.slow
def test_compacted_records_do_not_block_the_offset(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """They are not emitted, and nothing waits for them (STORM-2639)."""
    admin = AdminClient(topic.client_config)
    backoff = ConfigEntry(
        "log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET
    )
    for altered in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[backoff])]
    ).values():
        altered.result(30)
    topic.create(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
    producer = Producer(topic.client_config)
    for value in range(10):
        producer.produce(topic.name, b"%d" % value, key=b"same", partition=0)
    assert producer.flush(30) == 0

    def left() -> int:
        time.sleep(0.2)  # longer than segment_ms, so that this record starts another segment
        producer.produce(topic.name, b"last", key=b"other", partition=0)
        producer.flush(30)
        onlooker = topic.source()
        onlooker.assign(topic.at(), 0)
        while not (messages := onlooker.read(1)):
            time.sleep(0.01)
        return messages[0].offset()

    eventually(lambda: left() > 0, 60)
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(1)
    process.until(
        lambda: max(process.collector.emitted) + 1 == process.spout._source.end_offset(topic.at())
    )
    assert len(process.collector.emitted) < max(process.collector.emitted) + 1
    process.ack(*process.collector.emitted)
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == max(process.collector.emitted) + 1


def test_message_that_always_fails_becomes_a_dead_letter(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """This takes `retry_limit` further attempts with growing delays. Then the offset passes it."""
    topic.create().produce(b"poison", b"good")
    process = SpoutProcess(
        topic,
        zookeeper.connect,
        retry_limit=2,
        retry_initial_delay_ms=50,
        retry_delay_multiplier=4.0,
    )
    process.emit(2)
    process.ack(1)
    times = []
    for attempt in range(3):
        process.emit(2 + attempt)
        times.append(time.monotonic())
        process.spout.fail(process.collector.emitted[0])
    process.until(lambda: process.collector.letters == [0])
    assert process.collector.values == ["poison", "good", "poison", "poison"]
    assert times[1] - times[0] >= 0.05
    assert times[2] - times[1] >= 0.2
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 2


@pytest.mark.slow
def test_message_larger_than_a_fetch_is_read(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """`fetch_size_bytes` and `buffer_size_bytes` limit a fetch, not a message."""
    topic.create().produce(b"small", b"x" * 300_000, b"last")
    process = SpoutProcess(topic, zookeeper.connect, fetch_size_bytes=1000, buffer_size_bytes=4096)
    process.emit(3)
    assert [len(value) for value in process.collector.values] == [5, 300_000, 4]
    process.stop()


@pytest.mark.slow
def test_spout_may_have_its_own_brokers(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """`KafkaHosts.bootstrap_servers` wins over the Kafka of the process."""
    topic.create().produce(b"here")
    process = SpoutProcess(
        topic, zookeeper.connect, kafka="127.0.0.1:1", hosts=KafkaHosts(topic.kafka.bootstrap)
    )
    process.emit(1)
    assert process.collector.values == ["here"]
    process.stop()
