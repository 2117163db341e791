"""Where a partition begins and ends, of brokers that have to be asked more than once."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_LOOK_SECS: Final = 0.1
_PASSING: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""What brokers say of a partition that has just been made, or whose leader changes."""


def watermarks(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    """The first offset and the one behind the last. Raises `KafkaException` if Kafka does not tell them within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=seconds)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECS)
