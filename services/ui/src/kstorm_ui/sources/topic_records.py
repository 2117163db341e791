"""Messages of a topic for browsing: some records from an offset on, or the newest ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import AbsentError, BrokerError
from kstorm.introspection.outline import Outline
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

MOST: Final = 50
_ASK_SECS: Final = 10.0
_POLL_SECS: Final = 5.0
_MOST_TEXT: Final = 4_000
_CONFIG: Final = {
    "group.id": "kstorm-ui",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
}


class ListedRecord(msgspec.Struct, frozen=True):
    """One record. Contents are None unless values are shown."""

    partition: int
    offset: int
    at: int
    """Kafka's timestamp, in ms since 1970. 0 if it has none."""
    size: int
    """Bytes of the key and the value."""
    key: str | None = None
    value: str | None = None
    headers: Sequence[tuple[str, str]] = ()


class RecordPage(msgspec.Struct, frozen=True):
    """Some records of a topic."""

    partitions: Sequence[tuple[int, int, int]]
    """Partition, first offset and end."""
    records: Sequence[ListedRecord]
    """Newest first if no offset was given, otherwise in the order of the partition."""


def topics_of(outline: Outline | None) -> dict[str, str]:
    """Return the topics that can be browsed, and what the topology does with each."""
    if outline is None:
        return {}
    read = {
        reading.topic: f"read by {spout}"
        for spout, reading in outline.readings.items()
        if not reading.wildcard
    }
    written = {each.writing: f"written by {each.id}" for each in outline.bolts if each.writing}
    return {**written, **read}


def settings_for(settings: Settings, outline: Outline, topic: str) -> Settings:
    """Return the settings with the brokers of the topic, which may be a source elsewhere."""
    for reading in outline.readings.values():
        if reading.topic == topic and reading.bootstrap:
            return replace(settings, bootstrap_servers=reading.bootstrap)
    return settings


def records_of(
    settings: Settings,
    topic: str,
    partition: int | None,
    offset: int | None,
    *,
    values: bool,
    most: int = MOST,
) -> RecordPage:
    """Read up to `most` records.

    Without an offset, these are the newest ones. Without a partition, they are from all partitions.
    Raises `AbsentError` if the topic or the partition does not exist, `BrokerError` if Kafka does
    not respond.
    """
    count = Admin(settings).partition_counts().get(topic)
    if not count:
        raise AbsentError(f"Kafka at {settings.bootstrap_servers!r} has no topic {topic!r}")
    if partition is not None and not 0 <= partition < count:
        raise AbsentError(f"{topic} has partitions 0 to {count - 1}, but no partition {partition}")
    consumer = Consumer({**settings.client_config, **_CONFIG})
    try:
        bounds = [
            (
                number,
                *consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_ASK_SECS),
            )
            for number in range(count)
        ]
        wanted = [each for each in bounds if partition in (None, each[0])]
        share = -(-most // max(1, sum(start < end for _, start, end in wanted)))
        found: list[Message] = []
        for number, start, end in wanted:
            first = end - share if offset is None else offset
            found += _read(consumer, topic, number, min(max(start, first), end), end, share)
    except KafkaException as error:
        raise BrokerError(f"the topic {topic!r} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
    records = [_record(message, values=values) for message in found]
    if offset is None:
        records.sort(key=lambda each: (each.at, each.offset), reverse=True)
    return RecordPage(bounds, records[:most])


def _read(
    consumer: Consumer, topic: str, partition: int, first: int, end: int, most: int
) -> list[Message]:
    found: list[Message] = []
    if first >= end:
        return found
    consumer.assign([TopicPartition(topic, partition, first)])
    while len(found) < most:
        come = consumer.consume(most - len(found), _POLL_SECS)
        for message in come:
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
        if not come or (found and (found[-1].offset() or 0) + 1 >= end):
            break
    return found


def _record(message: Message, *, values: bool) -> ListedRecord:
    _, at = message.timestamp()
    key, value = message.key(), message.value()
    return ListedRecord(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        at=max(0, at or 0),
        size=len(key or b"") + len(value or b""),
        key=text_of(key) if values else None,
        value=text_of(value) if values else None,
        headers=_headers(message) if values else (),
    )


def _headers(message: Message) -> list[tuple[str, str]]:
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return [(str(name), text_of(one) or "") for name, one in pairs]


def text_of(part: str | bytes | None) -> str | None:
    """Return readable text: JSON and other UTF-8 as it is, other bytes as escapes. None stays."""
    if part is None:
        return None
    text = part if isinstance(part, str) else part.decode(errors="backslashreplace")
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
