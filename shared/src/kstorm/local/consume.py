"""Reads a topic to an end that is known, without a group."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from kstorm.errors import BrokerError

_SILENCE_SECS: Final = 30.0
_BATCH: Final = 5000


def consume_to(
    consumer: Consumer, topic: str, ends: Mapping[int, int], positions: dict[int, int]
) -> Iterator[list[Message]]:
    """The records up to these offsets, by partition, in batches that may be empty.

    `positions` says from which offset on, 0 where it says nothing, and moves along. Raises `BrokerError` if the records do
    not come.
    """
    missing = {partition for partition, end in ends.items() if end > positions.get(partition, 0)}
    consumer.assign([TopicPartition(topic, partition, positions.get(partition, 0)) for partition in missing])
    heard = time.monotonic()
    while missing:
        messages = consumer.consume(_BATCH, 1.0)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_SECS:
            raise BrokerError(f"no more records of topic {topic!r} came, although partitions {missing} have some")
        for message in messages:
            if (error := message.error()) is not None:
                raise BrokerError(f"topic {topic!r} cannot be read: {error.str()}")
            positions[message.partition() or 0] = (message.offset() or 0) + 1
        yield messages
        missing = {partition for partition in missing if positions.get(partition, 0) < ends[partition]}
