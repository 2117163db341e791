"""What a `KafkaBolt` tells of each record's end: Storm's `PreparableCallback`, with the tuple besides."""

from typing import Any, NamedTuple, Self

from kstorm.errors import BrokerError
from kstorm.topology import Config, TopologyContext, Tuple


class RecordMetadata(NamedTuple):
    """Where the broker has a record."""

    topic: str
    partition: int
    offset: int
    """-1 where the broker does not say, as with the producer property `acks=0`."""
    timestamp: int
    """Unix time in ms."""

    @classmethod
    def of(cls, record: Any) -> Self:
        """That of a delivered `confluent_kafka.Message`."""
        offset = record.offset()
        return cls(
            record.topic(),
            record.partition(),
            -1 if offset is None else offset,
            record.timestamp()[1],
        )


class ProducerCallback:
    """Give `KafkaBolt.with_producer_callback` an object of a class derived from this; each task has a copy of its own."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Called once, before the first record."""

    def on_completion(
        self, metadata: RecordMetadata | None, error: BrokerError | None, tuple: Tuple
    ) -> None:
        """Called once a record: with where it is, or with why it is not written. Must not wait: no other record is reported
        meanwhile. What it raises is reported, and changes nothing for the tuple."""
        raise NotImplementedError


def call_back(
    callback: ProducerCallback, tuple: Tuple, error: object | None, record: object
) -> None:
    """Tells it what a producer reports of a tuple's record."""
    if error is None:
        callback.on_completion(RecordMetadata.of(record), None, tuple)
    else:
        callback.on_completion(None, BrokerError(str(error)), tuple)
