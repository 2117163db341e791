"""Looks up a partition's first and end offset, with retries for temporary errors."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_LOOK_SECS: Final = 0.1
_PASSING: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Errors for a new partition, or one whose leader changes."""


def partition_bounds(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    """Return the first and the end offset.

    Raises `KafkaException` if Kafka does not return them within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=seconds)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECS)
