"""A task begins at the group's committed offsets, and not at all if these cannot be had."""

import asyncio
from typing import Any, cast

import pytest
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.kafka.consumer import TaskConsumer, TaskOwner
from kstorm.runtime.service.settings import Settings

PLACES = [TopicPartition("in", 0), TopicPartition("in", 1)]


class Committed:
    """What `Consumer.committed` says of one partition; the client's own class has no error that a test may set."""

    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self.partition, self.offset, self.error = partition, offset, error


class Group:
    """A `Consumer` whose group has an answer: places, or an exception."""

    def __init__(self, answer: list[Committed] | Exception) -> None:
        self._answer = answer

    def committed(self, places: list[TopicPartition], timeout: float) -> list[Committed]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def committed(answer: list[Committed] | Exception) -> dict[int, int]:
    """Where the tasks of a consumer begin after this answer. It has made no connection."""
    loop = asyncio.new_event_loop()
    consumer = TaskConsumer(
        Settings(topology="a:b", bootstrap_servers="kafka:9092", kafka_properties={"test.mock.num.brokers": "1"}),
        topic="in",
        group="words",
        session_timeout_ms=6000,
        revoke_secs=10,
        owner=cast("TaskOwner", None),
        loop=loop,
        fatal=lambda error: None,
        log=structlog.get_logger(),
    )
    try:
        return consumer._committed(cast("Consumer", Group(answer)), PLACES)
    finally:
        consumer._consumer.close()
        loop.close()


def test_tasks_begin_where_the_group_is() -> None:
    """Where it has committed nothing, at the beginning."""
    assert committed([Committed(0, 7), Committed(1, -1001)]) == {0: 7, 1: 0}


@pytest.mark.parametrize(
    "answer",
    [
        [Committed(0, 7), Committed(1, -1001, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))],
        KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)),
    ],
    ids=["for one partition", "for all"],
)
def test_offsets_that_cannot_be_read_begin_no_task(answer: Any) -> None:
    """A refusal of one partition has no offset either: taken for none, all of the task's log would be executed again."""
    with pytest.raises(
        BrokerError, match=r"offsets of the group 'words' cannot be read from Kafka at kafka:9092: .*Group"
    ):
        committed(answer)
