"""Reads and writes topics with one partition, for commands: dead letters, events."""

from collections.abc import Iterable, Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

_ASK_SECS: Final = 20.0
_FLUSH_SECS: Final = 20.0
_READING: Final = {
    "group.id": "kstorm-command",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # The broker delays the end-of-partition event by this time, and readers wait for that event.
    "fetch.wait.max.ms": 50,
}
_POLL_SECS: Final = 0.2
_BATCH: Final = 500
_MOST_WAITING: Final = 10_000


def read_topic(settings: Settings, topic: str, first: int = 0) -> Iterator[Message]:
    """Yield the current committed records from offset `first` on, without a group.

    Raises `BrokerError`.
    """
    for record in _records(settings, topic, first):
        if record is None:
            return
        yield record


def follow_topic(settings: Settings, topic: str, first: int = 0) -> Iterator[Message | None]:
    """Like `read_topic`, but endless. Once it has reached the end, yields None after each poll."""
    return _records(settings, topic, first)


def bounds(settings: Settings, topic: str) -> tuple[int, int] | None:
    """Return the first and the end offset, or None without the topic. Raises `BrokerError`."""
    if not Admin(settings).partition_counts().get(topic):
        return None
    consumer = Consumer(
        {**settings.client_config, "group.id": "kstorm-command", "enable.auto.commit": False}
    )
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_ASK_SECS)
    except KafkaException as error:
        raise BrokerError(
            f"Kafka did not return the offsets of {topic!r}: {error.args[0].str()}"
        ) from None
    finally:
        consumer.close()
    return first, end


def _records(settings: Settings, topic: str, first: int) -> Iterator[Message | None]:
    if not Admin(settings).partition_counts().get(topic):
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} has no topic {topic!r}: is that the "
            "topology's name, and has it run?"
        )
    consumer = Consumer({**settings.client_config, **_READING})
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_ASK_SECS)
        consumer.assign([TopicPartition(topic, 0, max(first, start))])
        at_end = False
        while True:
            come = consumer.consume(1, _POLL_SECS)  # returns as soon as one record is available
            for record in [*come, *consumer.consume(_BATCH, 0)]:
                error = record.error()
                if error is None:
                    yield record
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end = True
                else:
                    raise BrokerError(f"Kafka at {settings.bootstrap_servers!r}: {error.str()}")
            if at_end:
                yield None
    except KafkaException as error:
        raise BrokerError(f"{topic!r} cannot be read from Kafka: {error.args[0].str()}") from None
    finally:
        consumer.close()


def write_topic(
    settings: Settings, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]
) -> None:
    """Write keys and values. Raises `BrokerError` if Kafka has not stored all of them 20 s after
    the last write."""
    refused: list[str] = []

    def delivered(error: object | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({**settings.client_config, "enable.idempotence": True})
    try:
        for key, value in records:
            while len(producer) > _MOST_WAITING:
                producer.poll(_POLL_SECS)
            producer.produce(topic, value, key, 0, delivered)
    except KafkaException as error:
        refused.append(error.args[0].str())
    if producer.flush(_FLUSH_SECS) or refused:
        told = refused[0] if refused else "no response"
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} did not accept a record for {topic!r}: {told}"
        )
