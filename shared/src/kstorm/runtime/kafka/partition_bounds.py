"""Looks up the first and the end offsets of partitions, with retries for temporary errors."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.runtime.kafka.client_errors import raise_first_error

T = TypeVar("T")

_LOOK_SECS: Final = 0.1
_END: Final = -1  # used in place of a timestamp
_PASSING: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Errors of a new partition, or of one whose leader is changing."""


def partition_bounds(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    """Return the first and the end offset.

    Raises `KafkaException` if Kafka does not return them within `seconds`.
    """
    return _until(seconds, lambda: consumer.get_watermark_offsets(place, timeout=seconds))


def partition_ends(
    consumer: Consumer, topic: str, partitions: Sequence[int], seconds: float
) -> list[TopicPartition]:
    """Return the end offsets of several partitions, in one request for each broker.

    Raises `KafkaException` if Kafka does not return them within `seconds`.
    """
    places = [TopicPartition(topic, partition, _END) for partition in partitions]

    def ends() -> list[TopicPartition]:
        found = consumer.offsets_for_times(places, timeout=seconds)
        raise_first_error(found)
        return found

    return _until(seconds, ends)


def _until(seconds: float, ask: Callable[[], T]) -> T:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECS)
