"""Reports each record's result to user code: Storm's `PreparableCallback`, plus the tuple."""

from typing import Any, NamedTuple, Self

from kstorm.errors import BrokerError
from kstorm.topology import Config, TopologyContext, Tuple


class RecordMetadata(NamedTuple):
    """The broker's position and timestamp of a written record."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker does not return it, as with the producer property `acks=0`."""
    timestamp: int
    """Unix time in ms."""

    @classmethod
    def of(cls, record: Any) -> Self:
        """Build it from a delivered `confluent_kafka.Message`."""
        offset = record.offset()
        return cls(
            record.topic(),
            record.partition(),
            -1 if offset is None else offset,
            record.timestamp()[1],
        )


class ProducerCallback:
    """Base class for `KafkaBolt.with_producer_callback`. Each task gets a copy of the object."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Called once before the first record."""

    def on_completion(
        self, metadata: RecordMetadata | None, error: BrokerError | None, tuple: Tuple
    ) -> None:
        """Called once per record, with its `metadata` or the `error` that prevented the write.

        It must not block, because other records are not reported during the call. Exceptions are
        reported, and do not affect the tuple.
        """
        raise NotImplementedError


def call_back(
    callback: ProducerCallback, tuple: Tuple, error: object | None, record: object
) -> None:
    """Pass a producer's delivery report for a tuple's record to the callback."""
    if error is None:
        callback.on_completion(RecordMetadata.of(record), None, tuple)
    else:
        callback.on_completion(None, BrokerError(str(error)), tuple)
