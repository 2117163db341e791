"""Writes a `KafkaBolt`'s records with librdkafka: the `RecordWriter` of `kstorm.kafka.ports`.

Most of what writing a small record costs is being told that it was written. So librdkafka is asked to report failures
only, and success is seen in another way: it holds a reference to a record's report until the record's fate is known, and
a report that nobody refers to any more has heard of every record that was given it. CPython calls `__del__` at that
very moment, in `poll`, on the event loop.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.ports import BatchDelivery, Delivery, Headers, RecordColumn
from kstorm.runtime.delivery import produce_when_room

_POLL_SECS: Final = 0.005
_CLOSE_SECS: Final = 5.0
_DEFAULTS: Final = {
    "linger.ms": 5,
    "batch.size": 256 * 1024,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 256 * 1024,
}


_ACKS: Final = {"acks", "request.required.acks"}  # who sets these may want what idempotence rules out


class KafkaWriter:
    """A `RecordWriter` with a producer of its own, which it polls while records are on their way. Make it on the event loop.

    `client_config` has the librdkafka properties of the process, `properties` the bolt's, which win. Raises
    `ConfigError` on one that librdkafka refuses.
    """

    def __init__(self, client_config: Mapping[str, Any], properties: Mapping[str, Any] | None = None) -> None:
        own = dict(properties or {})
        ordered = (
            {} if own.keys() & _ACKS else {"enable.idempotence": True}
        )  # keeps the order when a request is sent again
        config = {**client_config, **ordered, **_DEFAULTS, **own, "delivery.report.only.error": True}
        try:
            self._producer = Producer(config)
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0]
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise ConfigError(f"producer properties of a KafkaBolt: {reason}") from None
        self._loop = asyncio.get_running_loop()
        self._polling = False

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
        headers: Headers | None = None,
    ) -> None:
        """Queues a record; raises `BrokerError` if the queue is full or the record is too large."""
        report = _Report(lambda errors: on_delivery(errors[0] if errors else None, None))
        try:
            if headers is None:
                self._producer.produce(topic, value, key, -1, report)
            else:
                self._producer.produce(topic, value, key, -1, report, headers=headers)
        except BufferError:
            report.forget()
            raise BrokerError(
                f"a record for topic {topic!r} finds the producer's queue full: Kafka is down or slower than the bolt"
            ) from None
        except KafkaException as error:
            report.forget()
            raise BrokerError(f"a record for topic {topic!r} was refused: {error.args[0].str()}") from None
        except (TypeError, ValueError) as error:  # a topic or a header's name that is no text, or has a NUL
            report.forget()
            raise BrokerError(f"a record for topic {topic!r} was refused: {error}") from None
        self._poll_soon()

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: BatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """Queues records; waits while the queue is full."""
        if headers is not None:
            self._write_with_headers(topic, keys, values, on_done, headers)
            return
        report = _Report(on_done)
        produce = self._producer.produce
        for key, value in zip(keys, values, strict=True):
            try:
                try:  # first without the helper, which would be a call more for every record
                    produce(topic, value, key, -1, report)
                except BufferError:
                    produce_when_room(self._producer, topic, value, key, -1, report)
            except (KafkaException, ValueError) as error:  # ValueError: text that has no UTF-8
                # Not the error itself: it knows this frame, which knows the report, which would then live on.
                report(error.args[0] if isinstance(error, KafkaException) else str(error), None)
        self._poll_soon()

    def _write_with_headers(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: BatchDelivery,
        headers: Sequence[Headers],
    ) -> None:
        """Apart, so that records without headers do not pay for asking."""
        report = _Report(on_done)
        for key, value, own in zip(keys, values, headers, strict=True):
            try:
                produce_when_room(self._producer, topic, value, key, -1, report, own)
            except (KafkaException, ValueError) as error:  # as above
                report(error.args[0] if isinstance(error, KafkaException) else str(error), None)
        self._poll_soon()

    async def close(self) -> None:
        """Waits up to 5 s for what is on its way."""
        deadline = self._loop.time() + _CLOSE_SECS
        while len(self._producer) and self._loop.time() < deadline:
            self._producer.poll(0)
            await asyncio.sleep(_POLL_SECS)

    def _poll_soon(self) -> None:
        if not self._polling:
            self._polling = True
            self._loop.call_later(_POLL_SECS, self._poll)

    def _poll(self) -> None:
        self._producer.poll(0)
        self._polling = len(self._producer) > 0
        if self._polling:
            self._loop.call_later(_POLL_SECS, self._poll)


class _Report:
    """What librdkafka refers to until the fate of each of its records is known: then `on_done` hears the errors."""

    __slots__ = ("_errors", "_on_done")

    def __init__(self, on_done: Callable[[Sequence[object]], None]) -> None:
        self._on_done: Callable[[Sequence[object]], None] | None = on_done
        self._errors: list[object] = []

    def __call__(self, error: object | None, record: object) -> None:
        """One was not written."""
        self._errors.append(error)

    def forget(self) -> None:
        """None was taken, and whoever gave them knows."""
        self._on_done = None

    def __del__(self) -> None:
        if self._on_done is not None:
            self._on_done(self._errors)
