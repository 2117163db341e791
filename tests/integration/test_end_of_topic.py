"""A `KafkaSpout` reaches the end of a topic whose last offsets hold no message, on a real broker."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.dev.servers import EmbeddedZooKeeper
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset


def transactions(topic: Topic) -> Producer:
    producer = Producer({**topic.client_config, "transactional.id": f"writer-of-{topic.name}"})
    producer.init_transactions(30)
    return producer


def write(producer: Producer, topic: Topic, count: int, *, commit: bool) -> None:
    """Write messages in one transaction, and end it."""
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic.name, b"%d" % number, partition=0)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def group_offset(topic: Topic) -> int:
    """The offset that lag tools see."""
    consumer = Consumer({**topic.client_config, "group.id": f"reader-of-{topic.name}"})
    try:
        return int(consumer.committed([TopicPartition(topic.name, 0)], 30)[0].offset)
    finally:
        consumer.close()


def test_a_topic_of_transactions_is_read_to_its_end(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """After 3 messages and a marker, and after 1,000 aborted records: no lag, no age, and every offset is at the end."""
    producer = transactions(topic.create())
    write(producer, topic, 3, commit=True)
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(3)
    process.ack(0, 1, 2)

    def turns() -> tuple[float, list[float]]:
        ages = process.spout.partitions.oldest_unfinished_seconds(time.time() * 1000)
        return process.spout.metrics()["lag"], list(ages.values())

    process.until(lambda: turns() == (0.0, [0.0]))
    end = process.spout._source.end_offset(topic.at())
    assert end == 4
    write(producer, topic, 1000, commit=False)
    # The fetching thread may move the end between two calls: ask for the end first.
    process.until(
        lambda: process.spout._source.end_offset(topic.at()) == 1005 and turns() == (0.0, [0.0])
    )
    assert process.collector.values == ["0", "1", "2"]
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 1005
    eventually(lambda: group_offset(topic) == 1005, 20.0)
    write(producer, topic, 2, commit=True)
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(2)
    assert sorted(process.collector.emitted) == [1005, 1006]
    process.until(lambda: turns()[0] == 3.0)
    process.ack(1005, 1006)
    process.until(lambda: turns() == (0.0, [0.0]))
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 1008
