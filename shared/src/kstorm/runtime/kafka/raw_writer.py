"""Writes messages to topics that kstorm does not own, and reports which of them Kafka has stored."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, Message, Producer

from kstorm.runtime.base.settings import Settings

_FLUSH_SECS: Final = 20.0


class RawMessage(NamedTuple):
    topic: str
    partition: int | None
    """None: the partition is chosen by the key, as by Java producers."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | None]]


def write_raw(settings: Settings, copies: Sequence[RawMessage]) -> tuple[set[int], str]:
    """Write the messages. Returns the indexes of the stored ones.

    The second value is the reason why others were not stored within 20 s, or "".
    """
    taken: set[int] = set()
    problems: list[str] = []

    def delivered(number: int, error: object | None, _: Message) -> None:
        if error is None:
            taken.add(number)
        else:
            problems.append(str(error))

    producer = Producer(
        {**settings.client_config, "enable.idempotence": True, "partitioner": "murmur2_random"}
    )
    try:
        for number, copy in enumerate(copies):
            partition = -1 if copy.partition is None else copy.partition
            report = partial(delivered, number)
            producer.produce(
                copy.topic, copy.value, copy.key, partition, report, headers=list(copy.headers)
            )
    except KafkaException as error:
        problems.append(error.args[0].str())
    if producer.flush(_FLUSH_SECS):
        producer.purge()
        producer.flush(1)
        problems.append("no response")
    return taken, problems[0] if problems else ""
