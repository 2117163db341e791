"""Looks up the first and the end offset of a partition, with retries for temporary errors."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_LOOK_SECS: Final = 0.1
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
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=seconds)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECS)
