"""Reads single input records of a task again: the frames that a former owner did not finish."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.core.engine import InputRecord
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.fetch_limits import OWN_TOPICS
from kstorm.runtime.kafka.records import record_of

_POLL_SECS: Final = 0.2
_PATIENCE_SECS: Final = 60.0


def reread(
    settings: Settings, topic: str, partition: int, offsets: Iterable[int]
) -> Sequence[InputRecord]:
    """Return the records at these offsets that the topic still has. Blocks.

    Raises `BrokerError` if Kafka does not respond.
    """
    consumer = Consumer(
        {
            **settings.client_config,
            "group.id": f"{topic}.again",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            **OWN_TOPICS,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        found = []
        for offset in sorted(offsets):
            consumer.assign([TopicPartition(topic, partition, offset)])
            record = _next(consumer, topic, settings)
            if record is not None and record.offset == offset:
                found.append(record)
        return found
    finally:
        consumer.close()


def _next(consumer: Consumer, topic: str, settings: Settings) -> InputRecord | None:
    deadline = time.monotonic() + _PATIENCE_SECS
    while time.monotonic() < deadline:
        try:
            message = consumer.poll(_POLL_SECS)
        except KafkaException as error:
            raise _failed(settings, topic, error.args[0].str()) from None
        if message is None:
            continue
        fault = message.error()
        if fault is None:
            return record_of(message)
        if fault.code() == KafkaError._PARTITION_EOF:
            return None
    raise _failed(settings, topic, f"no response within {_PATIENCE_SECS:.0f} s")


def _failed(settings: Settings, topic: str, reason: str) -> BrokerError:
    return BrokerError(
        f"the topic {topic!r} cannot be read from Kafka at {settings.bootstrap_servers}: {reason}"
    )
