"""The newest dead letters of a topology, without what the messages hold: a reader of its own until `kstorm.inspect` has one."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.service.settings import Settings

_MOST: Final = 200
_PATIENCE_SECS: Final = 10.0


class _Envelope(msgspec.Struct):
    """What is shown of a letter; the rest of it is not even decoded."""

    component: str = ""
    task: int = 0
    reason: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    attempts: int = 0


class LetterRow(msgspec.Struct, frozen=True):
    """One letter."""

    number: int
    """Its offset in the topic of the dead letters."""
    at: float
    """Unix time in seconds; 0 if that is not known."""
    component: str
    task: int
    why: str
    """The reason up to its colon: what stands behind that may quote the message."""
    message: str
    """`sentences/3/10482`; empty where the message did not come from Kafka."""
    attempts: int


def letters_of(settings: Settings, topology: str) -> Sequence[LetterRow]:
    """The newest 200, the newest first. Raises `BrokerError` if Kafka does not say."""
    consumer = Consumer(
        {**settings.client_config, "group.id": f"{topology}.ui", "enable.auto.commit": False, "log_level": 0}
    )
    place = TopicPartition(f"{topology}.__dead_letters", 0)
    try:
        first, end = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECS)
        place.offset = max(first, end - _MOST)
        consumer.assign([place])
        return sorted(_read(consumer, place, end), key=lambda row: row.number, reverse=True)
    except KafkaException as error:
        cause: Any = error.args[0]
        if cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            return []
        raise BrokerError(f"Kafka does not tell the dead letters of {topology!r}: {cause.str()}") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, place: TopicPartition, end: int) -> Iterator[LetterRow]:
    deadline = time.monotonic() + _PATIENCE_SECS
    position = place.offset
    while position < end and time.monotonic() < deadline:
        for message in consumer.consume(_MOST, 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            yield _row(message)
        now = consumer.position([place])[0].offset
        position = now if now >= 0 else position


def _row(message: Message) -> LetterRow:
    number, (_, at) = message.offset() or 0, message.timestamp()
    try:
        found = msgspec.json.decode(message.value() or b"", type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return LetterRow(number, max(0, at) / 1000, "", 0, "is no letter of kstorm's", "", 0)
    came_from = f"{found.topic}/{found.partition}/{found.offset}" if found.topic else ""
    return LetterRow(
        number,
        max(0, at) / 1000,
        found.component,
        found.task,
        found.reason.partition(":")[0],
        came_from,
        found.attempts,
    )
