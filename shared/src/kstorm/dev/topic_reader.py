"""Reads a topic up to its current end, without a consumer group."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kstorm.errors import BrokerError

_SILENCE_SECS: Final = 30.0
_BATCH: Final = 5000


def consume_to(
    consumer: Consumer, topic: str, ends: Mapping[int, int], positions: dict[int, int]
) -> Iterator[list[Message]]:
    """Yield the records up to these offsets by partition, in batches that may be empty.

    `positions` gives the start offset by partition (default 0) and is advanced while reading.
    Raises `BrokerError` if records do not arrive. The last offsets may belong to transaction
    markers instead of records. In that case the consumer needs `enable.partition.eof`.
    """
    missing = {partition for partition, end in ends.items() if end > positions.get(partition, 0)}
    consumer.assign(
        [TopicPartition(topic, partition, positions.get(partition, 0)) for partition in missing]
    )
    heard = time.monotonic()
    while missing:
        messages = consumer.consume(_BATCH, 1.0)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_SECS:
            raise BrokerError(
                f"no more records of topic {topic!r} came, although partitions {missing} have some"
            )
        records = []
        for message in messages:
            error, partition, offset = (
                message.error(),
                message.partition() or 0,
                message.offset() or 0,
            )
            if error is None:
                records.append(message)
                positions[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[partition] = max(offset, positions.get(partition, 0))
            else:
                raise BrokerError(f"topic {topic!r} cannot be read: {error.str()}")
        yield records
        missing = {
            partition for partition in missing if positions.get(partition, 0) < ends[partition]
        }
