"""Offsets that a spout's group has committed for its source, on a real Kafka."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.group_positions import GroupPositions
from kstorm.runtime.kafka.position_notes import noted
from kstorm.topology.positioned import Position
from tests.conftest import Eventually
from tests.integration.engine import make_topics


@pytest.fixture
def positions(kafka: EmbeddedKafka, topic_prefix: str) -> Iterator[GroupPositions]:
    """The positions of a group in a source with two partitions."""
    make_topics(kafka.bootstrap, {topic_prefix: 2})
    made = GroupPositions(Settings(topology="a:b", bootstrap_servers=kafka.bootstrap), topic_prefix)
    yield made
    made.close()


def found(positions: GroupPositions, partition: Partition, eventually: Eventually) -> int | None:
    """Return the next answer."""
    answers: list[int | None] = []

    def answered() -> bool:
        answers.append(positions.position(partition))
        return answers[-1] is not None

    eventually(answered, 30)
    return answers[-1]


def test_position_in_an_open_transaction_is_awaited(
    kafka: EmbeddedKafka, topic_prefix: str, positions: GroupPositions, eventually: Eventually
) -> None:
    """Other partitions do not wait. Each time the committed offset is looked up again."""
    first, second = Partition(topic_prefix, 0), Partition(topic_prefix, 1)
    assert found(positions, first, eventually) == -1
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic_prefix})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic_prefix})
    for offset in (7, 8):
        producer.begin_transaction()
        place = TopicPartition(*first, offset)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 30)
        for _ in range(3):
            assert found(positions, second, eventually) == -1
            assert positions.position(first) is None
        producer.commit_transaction(30)
        assert found(positions, first, eventually) == offset
        assert positions.problem() is None
    consumer.close()


def test_event_time_of_a_position_is_committed_with_it(
    kafka: EmbeddedKafka, topic_prefix: str, positions: GroupPositions, eventually: Eventually
) -> None:
    """In the metadata of the offset, which librdkafka hands over in the transaction."""
    first, second = Partition(topic_prefix, 0), Partition(topic_prefix, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic_prefix})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic_prefix})
    producer.begin_transaction()
    places = [noted(first, Position.of(7, -1_500)), noted(second, Position.of(8, None))]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()
    there = found(positions, first, eventually)
    assert isinstance(there, Position)
    assert (there, there.reached) == (7, -1_500)
    assert type(found(positions, second, eventually)) is int
