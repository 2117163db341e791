"""`kstorm consume TOPIC`: print a topic's records, one per line: key, tab, value.

kstorm consume word-counts --tail 5
kstorm consume word-counts --tail 0 --follow
"""

import sys
from collections.abc import Iterator
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.kafka_options import Topic, num_partitions
from kstorm.cli.place_options import Bootstrap, settings_for
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings

_ASK_SECS: Final = 20.0
_BATCH: Final = 500
_POLL_SECS: Final = 0.2


def consume(
    topic: Topic,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="RECORDS", help="Print only the last RECORDS of each partition."
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print the current records of a topic, without joining a consumer group."""
    settings = settings_for(bootstrap)
    partitions = num_partitions(settings, topic)
    config = {
        "group.id": "kstorm-consume",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings.client_config, **config})
    try:
        consumer.assign(
            [_begin(consumer, TopicPartition(topic, number), tail) for number in range(partitions)]
        )
        for record in _records(consumer, settings, partitions, follow):
            if json:
                print_json(_object_of(record))
            else:
                sys.stdout.write(f"{_text(record.key())}\t{_text(record.value())}\n")
    except KeyboardInterrupt:
        return
    except KafkaException as error:
        raise BrokerError(f"the topic {topic!r} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _begin(consumer: Consumer, place: TopicPartition, tail: int | None) -> TopicPartition:
    first, end = consumer.get_watermark_offsets(place, timeout=_ASK_SECS)
    return TopicPartition(
        place.topic, place.partition, first if tail is None else max(first, end - tail)
    )


def _records(
    consumer: Consumer, settings: Settings, partitions: int, follow: bool
) -> Iterator[Message]:
    """Yield records up to the end of every partition, or forever with `follow`."""
    unread = set(range(partitions))
    while unread or follow:
        for record in consumer.consume(_BATCH, _POLL_SECS):
            error = record.error()
            if error is None:
                yield record
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(record.partition())
            else:
                raise BrokerError(f"Kafka at {settings.bootstrap_servers!r}: {error.str()}")
        # Print all received records before waiting for more.
        sys.stdout.flush()


def _object_of(record: Message) -> dict[str, object]:
    return {
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": record.timestamp()[1],
        "key": None if record.key() is None else _text(record.key()),
        "value": None if record.value() is None else _text(record.value()),
    }


def _text(part: str | bytes | None) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else part or ""
