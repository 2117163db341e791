"""Writes the records of a `KafkaBolt`, and of a `KafkaSpout` what it has finished: the `RecordWriter` of `kstorm.kafka.ports`.

Most of what writing a small record costs is being told that it was written. So librdkafka is asked to report failures
only, and success is seen in another way: it holds a reference to a record's report until the record's fate is known, and
a report that nobody refers to any more has heard of every record that was given it. CPython calls `__del__` at that
very moment, in `poll`, on the event loop.

So acks hang on reference counting: nothing here may keep a report, or an error whose traceback knows one. To count explicit
reports instead was measured (librdkafka's own mock broker, five rounds of 400,000 small records): 0.72 to 0.92 µs a record
on the event loop's thread in place of 0.50 to 0.71, which is 7 % of all that a sentence of ten words costs. Who sets
`delivery.report.only.error` to false (as a bolt with a producer callback does) gets explicit reports, and pays for them.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn
from kstorm.runtime.kafka.forgotten import Forgotten
from kstorm.runtime.kafka.producer import produce_when_room
from kstorm.runtime.kafka.statistics import SELDOM_MS

log = logging.getLogger(__name__)

_POLL_SECS: Final = 0.005
_CLOSE_SECS: Final = 5.0
_REASON_SECS: Final = 0.5
_DEFAULTS: Final = {
    "linger.ms": 5,
    "batch.size": 256 * 1024,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "delivery.report.only.error": True,
}
_ACKS: Final = {
    "acks",
    "request.required.acks",
}  # who sets these may want what idempotence rules out
_NOT_ALLOWED: Final = (
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


def end_process(error: Exception) -> None:
    """Ends it now, and says why."""
    log.critical("%s", error)
    os._exit(1)


class KafkaWriter:
    """A `RecordWriter` with a producer of its own, which it polls while records are on their way. Make it on the event loop.

    `client_config` has the librdkafka properties of the process, `properties` the bolt's, which win. Raises
    `ConfigError` on one that librdkafka refuses. `fatal` is called when the producer will never write again, as after a fatal error
    or when it has forgotten all brokers, and is to end the process: tuples would fail and be replayed for ever. By default it does.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        properties: Mapping[str, Any] | None = None,
        fatal: Callable[[Exception], None] = end_process,
    ) -> None:
        own = dict(properties or {})
        ordered = (
            {} if own.keys() & _ACKS else {"enable.idempotence": True}
        )  # keeps the order when a request is sent again
        self._forgotten = Forgotten()
        config = {**client_config, **ordered, **_DEFAULTS, **self._forgotten.properties, **own}
        self._fatal, self._where, self._topic = fatal, config.get("bootstrap.servers", ""), ""
        self._reports_all = config["delivery.report.only.error"] is False
        try:
            self._producer = Producer(config)
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0]
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise ConfigError(f"producer properties of a KafkaBolt: {reason}") from None
        self._loop = asyncio.get_running_loop()
        self._polling = False
        self._look_later()

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """Queues a record; raises `BrokerError` if the queue is full or the record is too large."""
        if self._reports_all:
            self._produce(topic, key, value, on_delivery, headers)
            return
        report = _Report(lambda errors: on_delivery(errors[0] if errors else None, None))
        try:
            self._produce(topic, key, value, report, headers)
        except BrokerError:
            report.forget()
            raise

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        report: OnDelivery,
        headers: Headers | None,
    ) -> None:
        self._topic = topic
        try:
            if headers is None:
                self._producer.produce(topic, value, key, -1, report)
            else:
                self._producer.produce(topic, value, key, -1, report, headers=headers)
        except BufferError:
            raise BrokerError(
                f"a record for topic {topic!r} finds the producer's queue full: Kafka is down or slower than the bolt"
            ) from None
        except (
            KafkaException,
            TypeError,
            ValueError,
        ) as error:  # ValueError: a topic or a header's name that is no text
            raise BrokerError(
                f"a record for topic {topic!r} was refused: {self._reason(error)}"
            ) from None
        self._poll_soon()

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """Queues records; waits while the queue is full."""
        if headers is not None:
            self._write_with_headers(topic, keys, values, on_done, headers)
            return
        self._topic = topic
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
                report(self._reason(error), None)
        self._poll_soon()

    def _write_with_headers(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers],
    ) -> None:
        """Apart, so that records without headers do not pay for asking."""
        self._topic = topic
        report = _Report(on_done)
        for key, value, own in zip(keys, values, headers, strict=True):
            try:
                produce_when_room(self._producer, topic, value, key, -1, report, own)
            except (KafkaException, ValueError) as error:  # as above
                report(self._reason(error), None)
        self._poll_soon()

    def _reason(self, error: Exception) -> str:
        """Why a record was refused at once."""
        cause = error.args[0] if error.args else error
        if not isinstance(cause, KafkaError):
            return str(error)
        if cause.fatal() or cause.code() == KafkaError._FATAL:
            self._serve(_REASON_SECS)  # which says what it was, if nobody has heard of it yet
            self._fail(cause)
        return cause.str()

    def _fail(self, error: KafkaError) -> None:
        remedy = (
            "the process ends, and starts anew; if that repeats itself, look into the brokers' logs"
        )
        if error.code() in _NOT_ALLOWED:
            remedy = "allow its user WRITE on that topic, and before Kafka 3.0 IDEMPOTENT_WRITE on the cluster"
        self._fatal(
            BrokerError(
                f"a producer can write no more to topic {self._topic!r} of Kafka at {self._where}: {error.str()}; "
                f"{remedy}"
            )
        )

    async def close(self) -> None:
        """Waits up to 5 s for what is on its way."""
        self._looking.cancel()
        deadline = self._loop.time() + _CLOSE_SECS
        while len(self._producer) and self._loop.time() < deadline:
            self._serve()
            await asyncio.sleep(_POLL_SECS)

    def _poll_soon(self) -> None:
        if not self._polling:
            self._polling = True
            self._loop.call_later(_POLL_SECS, self._poll)

    def _poll(self) -> None:
        try:
            self._serve()
        finally:  # whatever a report raised: those behind it must not wait for ever
            self._polling = len(self._producer) > 0
            if self._polling:
                self._loop.call_later(_POLL_SECS, self._poll)

    def _look(self) -> None:
        """Whether there are brokers left; again and again, since with nothing on its way nobody else polls."""
        self._serve()
        if self._forgotten.all:
            self._fatal(self._forgotten.error(self._topic, "writes to"))
        else:
            self._look_later()

    def _look_later(self) -> None:
        self._looking = self._loop.call_later(SELDOM_MS / 1000, self._look)

    def _serve(self, seconds: float = 0) -> None:
        """Hears of records; confluent-kafka raises here what is fatal to the producer as a whole, and calls no `error_cb`."""
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._fail(error.args[0])


class _Report:
    """What librdkafka refers to until the fate of each of its records is known: then `on_done` hears the errors."""

    __slots__ = ("_errors", "_on_done")

    def __init__(self, on_done: Callable[[Sequence[object]], None]) -> None:
        self._on_done: Callable[[Sequence[object]], None] | None = on_done
        self._errors: list[object] = []

    def __call__(self, error: object | None, record: object) -> None:
        """One was not written; or it was, if the producer reports all."""
        if error is not None:
            self._errors.append(error)

    def forget(self) -> None:
        """None was taken, and whoever gave them knows."""
        self._on_done = None

    def __del__(self) -> None:
        if self._on_done is not None:
            self._on_done(self._errors)
