"""Read the current records of a topic with any number of partitions."""

from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

_ASK_SECS: Final = 20.0
_BATCH: Final = 10_000
_POLL_SECS: Final = 0.2


def read_whole_topic(settings: Settings, topic: str, since: int | None = None) -> Iterator[Message]:
    """Yield the committed records that a topic has now, without a group.

    A partition's records are in order. `since` is a Unix time in ms: earlier records are left out.
    Raises `BrokerError` if the topic does not exist or cannot be read.
    """
    count = Admin(settings).partition_counts().get(topic)
    if not count:
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} has no topic {topic!r}: check its name"
        )
    config = {
        "group.id": "kstorm-command",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings.client_config, **config})
    try:
        yield from _records(consumer, topic, count, since)
    except KafkaException as error:
        raise BrokerError(f"the topic {topic!r} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _records(consumer: Consumer, topic: str, count: int, since: int | None) -> Iterator[Message]:
    ends = {}
    begins = []
    for number in range(count):
        place = TopicPartition(topic, number, since or 0)
        first, ends[number] = consumer.get_watermark_offsets(place, timeout=_ASK_SECS)
        if since is not None:
            (found,) = consumer.offsets_for_times([place], timeout=_ASK_SECS)
            first = found.offset if found.offset >= 0 else ends[number]
        begins.append(TopicPartition(topic, number, first))
    consumer.assign(begins)
    unread = set(ends)
    while unread:
        for record in consumer.consume(_BATCH, _POLL_SECS):
            error, number = record.error(), record.partition() or 0
            if error is None:
                if (record.offset() or 0) < ends[number]:
                    yield record
                else:
                    unread.discard(number)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(number)
            else:
                raise KafkaException(error)
