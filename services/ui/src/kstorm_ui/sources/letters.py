"""The newest dead letters of a topology, without what the messages hold, and without those that were discarded."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.inspect.letters import LetterRecord, Numbered, component_of, fingerprint, kind_of, left
from kstorm.runtime.service.settings import Settings
from kstorm.topology.names import NamesOf

_MOST: Final = 200
_PATIENCE_SECS: Final = 10.0


class LetterRow(msgspec.Struct, frozen=True):
    """One letter."""

    number: int
    """Its offset in the topic of the dead letters."""
    at: float
    """Unix time in seconds; 0 if that is not known."""
    component: str
    task: int
    kind: str
    error: str
    """Its type; empty if none was raised. Its text may quote the message."""
    group: str
    """The fingerprint: the same for letters that are alike."""
    message: str
    """`sentences/3/10482`; empty where the message did not come from Kafka."""
    attempts: int


def letters_of(settings: Settings, topology: str) -> Sequence[LetterRow]:
    """The newest 200, the newest first. Raises `BrokerError` if Kafka does not say."""
    consumer = Consumer(
        {**settings.client_config, "group.id": f"{topology}.ui", "enable.auto.commit": False, "log_level": 0}
    )
    place = TopicPartition(NamesOf(topology).dead_letters_topic, 0)
    try:
        first, end = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECS)
        place.offset = max(first, end - _MOST)
        consumer.assign([place])
        found = left(_read(consumer, place, end)).letters
        return sorted(map(_row, found), key=lambda row: row.number, reverse=True)
    except KafkaException as error:
        cause: Any = error.args[0]
        if cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            return []
        raise BrokerError(f"Kafka does not tell the dead letters of {topology!r}: {cause.str()}") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, place: TopicPartition, end: int) -> Iterator[LetterRecord]:
    deadline = time.monotonic() + _PATIENCE_SECS
    position = place.offset
    while position < end and time.monotonic() < deadline:
        for message in consumer.consume(_MOST, 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            yield LetterRecord(message.offset() or 0, message.key(), message.value(), max(0, message.timestamp()[1]))
        now = consumer.position([place])[0].offset
        position = now if now >= 0 else position


def _row(found: Numbered) -> LetterRow:
    letter = found.letter
    came_from = f"{letter.topic}/{letter.partition}/{letter.offset}" if letter.topic else ""
    error = letter.error.type if letter.error else ""
    return LetterRow(
        found.number,
        letter.at / 1000,
        component_of(letter),
        letter.task,
        kind_of(letter),
        error,
        fingerprint(letter),
        came_from,
        letter.attempts,
    )
