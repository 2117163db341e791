"""Writes a `KafkaBolt`'s records with librdkafka: the `RecordWriter` of `kstorm.kafka.ports`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.ports import BatchDelivery, Delivery

_POLL_SECS: Final = 0.002
_FULL_SECS: Final = 0.05
_CLOSE_SECS: Final = 5.0


class KafkaWriter:
    """A `RecordWriter` on the process's producer, which whoever owns it polls on the event loop."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """Queues a record; raises `BrokerError` if the queue is full or the record is too large."""
        try:
            if headers is None:
                self._producer.produce(topic, value, key, on_delivery=on_delivery)
            else:
                self._producer.produce(topic, value, key, on_delivery=on_delivery, headers=headers)
        except BufferError:
            raise BrokerError(
                f"a record for topic {topic!r} finds the producer's queue full: Kafka is down or slower than the bolt"
            ) from None
        except KafkaException as error:
            raise BrokerError(f"a record for topic {topic!r} was refused: {error.args[0].str()}") from None

    def write_batch(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None], on_done: BatchDelivery
    ) -> None:
        """Queues records; waits while the queue is full."""
        report = _BatchReport(len(keys), on_done)
        produce = self._producer.produce
        records = zip(keys, values, strict=True)
        for key, value in records:
            try:
                produce(topic, value, key, -1, report)
            except BufferError:
                self._insist(topic, key, value, report)
            except KafkaException as error:
                report(error.args[0], None)

    def _insist(self, topic: str, key: bytes | None, value: bytes | None, report: "_BatchReport") -> None:
        while True:
            self._producer.poll(_FULL_SECS)  # Kafka is slower than we are: this is the backpressure
            try:
                self._producer.produce(topic, value, key, -1, report)
            except BufferError:
                continue
            except KafkaException as error:
                report(error.args[0], None)
            return

    async def close(self) -> None:
        """Does nothing: the producer is others' too."""


class _BatchReport:
    """The delivery report of every record of a batch: calls `on_done` with the errors when the last has come."""

    __slots__ = ("_errors", "_left", "_on_done")

    def __init__(self, records: int, on_done: BatchDelivery) -> None:
        self._left, self._on_done = records, on_done
        self._errors: list[object] = []
        if not records:
            on_done(())

    def __call__(self, error: object | None, record: object) -> None:
        if error is not None:
            self._errors.append(error)
        self._left -= 1
        if not self._left:
            self._on_done(self._errors)


class OwnKafkaWriter(KafkaWriter):
    """A writer with a producer of its own, which it polls while records are on their way. Make it on the event loop.

    `client_config` has the librdkafka properties of the process, `properties` the bolt's, which win. Raises
    `ConfigError` on one that librdkafka refuses.
    """

    def __init__(self, properties: Mapping[str, Any], client_config: Mapping[str, Any]) -> None:
        try:
            producer = Producer({**client_config, "linger.ms": 1, **properties})
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0]
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise ConfigError(f"producer properties of a KafkaBolt: {reason}") from None
        super().__init__(producer)
        self._loop = asyncio.get_running_loop()
        self._polling = False

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """As `KafkaWriter.write`."""
        super().write(topic, key, value, on_delivery, headers)
        self._poll_soon()

    def write_batch(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None], on_done: BatchDelivery
    ) -> None:
        """As `KafkaWriter.write_batch`."""
        super().write_batch(topic, keys, values, on_done)
        self._poll_soon()

    def _poll_soon(self) -> None:
        if not self._polling:
            self._polling = True
            self._loop.call_later(_POLL_SECS, self._poll)

    async def close(self) -> None:
        """Waits up to 5 s for what is on its way."""
        deadline = self._loop.time() + _CLOSE_SECS
        while len(self._producer) and self._loop.time() < deadline:
            self._producer.poll(0)
            await asyncio.sleep(_POLL_SECS)

    def _poll(self) -> None:
        self._producer.poll(0)
        self._polling = len(self._producer) > 0
        if self._polling:
            self._loop.call_later(_POLL_SECS, self._poll)
