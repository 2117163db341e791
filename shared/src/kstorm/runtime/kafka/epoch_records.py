"""Passes the records of a transaction to librdkafka. This is the cost per record.

`Producer.produce` takes 0.4 µs, and a Python function call around it takes longer than that. So the
loops call it directly, and `produce_when_room` only when the queue is full.
"""

from collections.abc import Iterable, Sequence
from itertools import count, groupby
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from kstorm.core.outgoing import BY_KEY, EpochRecords, OutgoingRecord, Part, SinkRecords
from kstorm.runtime.kafka.producer import Report, produce_when_room
from kstorm.runtime.kafka.refusals import Refusals


class Attempt:
    """The content of one transaction and the result of writing it."""

    def __init__(
        self,
        changelog: str,
        pairs: Sequence[tuple[int, bytes, bytes | None]],
        records: Sequence[OutgoingRecord],
        places: list[TopicPartition],
        metadata: Any,
        deadline: float,
    ) -> None:
        self.changelog, self.pairs, self.records, self.places = changelog, pairs, records, places
        self.metadata = metadata
        self.last: dict[int, int] = {}
        """The last offset per changelog partition that was written."""
        self.refusals = Refusals(records, changelog)
        self.refused: KafkaError | None = None
        """The error that requires an abort."""
        self.deadline = deadline

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Delivery report of a changelog record."""
        if error is None:
            self.last[message.partition() or 0] = message.offset() or 0
        else:
            self.refusals.add_change(error)


def produce_pairs(
    producer: Producer,
    changelog: str,
    pairs: Iterable[tuple[int, bytes, bytes | None]],
    report: Report,
) -> None:
    """Produce changelog records, given as partition, key and value."""
    produce = producer.produce
    for partition, key, value in pairs:
        try:
            produce(changelog, value, key, partition, report)
        except BufferError:
            produce_when_room(producer, changelog, value, key, partition, report)


def produce_each(
    producer: Producer,
    records: Iterable[tuple[int, OutgoingRecord]],
    refusals: Refusals,
    *,
    listens: bool = True,
) -> None:
    """Produce numbered records.

    With `listens`, `refusals` receives the delivery report of each record. Otherwise it receives
    only immediate refusals.
    """
    produce = producer.produce
    for number, out in records:
        report = refusals.listen(number) if listens else None
        headers: Any = out.headers
        try:
            try:
                if headers is None:
                    produce(out.topic, out.value, out.key, out.partition, report)
                else:
                    produce(out.topic, out.value, out.key, out.partition, report, headers=headers)
            except BufferError:
                produce_when_room(
                    producer, out.topic, out.value, out.key, out.partition, report, headers
                )
        except KafkaException as error:
            refusals.add(number, error.args[0])
        except (TypeError, ValueError) as error:
            # The value is not bytes, or the text cannot be encoded as UTF-8.
            refusals.add_unwritable(number, error)


def produce_unreported(
    producer: Producer, records: Sequence[OutgoingRecord], refusals: Refusals
) -> None:
    """Produce the records of an epoch. `refusals` receives only immediate refusals."""
    parts = records.parts if isinstance(records, EpochRecords) else records
    number = 0
    for in_columns, some in groupby(parts, _is_in_columns):
        if in_columns:
            for part in cast("Iterable[SinkRecords]", some):
                _produce_columns(producer, part, number, refusals)
                number += len(part)
        else:
            rows = EpochRecords(some)
            produce_each(producer, enumerate(rows, number), refusals, listens=False)
            number += len(rows)


def _is_in_columns(part: Part) -> bool:
    return type(part) is SinkRecords and part.headers is None


def _produce_columns(
    producer: Producer, records: SinkRecords, first: int, refusals: Refusals
) -> None:
    produce, topic = producer.produce, records.topic
    for value, key, number in zip(records.values, records.keys, count(first)):
        try:
            try:
                produce(topic, value, key, BY_KEY, None)
            except BufferError:
                produce_when_room(producer, topic, value, key, BY_KEY, None)
        except KafkaException as error:
            refusals.add(number, error.args[0])
        except (TypeError, ValueError) as error:  # as in `produce_each`
            refusals.add_unwritable(number, error)
