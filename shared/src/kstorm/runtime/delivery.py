"""Produces records, and knows when all that a piece of work caused has arrived.

A `WorkUnit` counts the records that it sent and the broker has not confirmed. Units of one task are finished in order,
so that an input offset is only ever committed past work whose every effect is durable.
"""

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstorm.core.outbox import Outgoing
from kstorm.errors import BrokerError
from kstorm.kafka.ports import Headers
from kstorm.runtime.settings import Settings

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Of a record in a changelog, which `CheckpointWriter` writes: a ledger's bucket, a value of state. Frames and dead letters
are capped far below."""
_FULL_SECONDS = 0.05

Report = Callable[[KafkaError | None, Message], None]
"""A delivery report, as librdkafka calls it."""


def produce_when_room(
    producer: Producer,
    topic: str,
    value: str | bytes | None,
    key: str | bytes | None,
    partition: int,
    report: Report,
    headers: Headers | None = None,
) -> None:
    """As `Producer.produce`, but waits while the local queue is full: this is the backpressure of a slow broker."""
    while True:
        try:
            if headers is None:
                producer.produce(topic, value, key, partition, report)
            else:
                producer.produce(topic, value, key, partition, report, headers=headers)
        except BufferError:
            producer.poll(_FULL_SECONDS)
        else:
            return


class WorkUnit:
    """Some sends, and whom to tell once the broker has them all. The teller is called on the event loop."""

    __slots__ = ("_closed", "_on_done", "_outstanding", "done")

    def __init__(self, on_done: Callable[[], Any]) -> None:
        self._on_done = on_done
        self._outstanding = 0
        self._closed = False
        self.done = False

    def add(self) -> None:
        """One more record is on its way."""
        self._outstanding += 1

    def delivered(self) -> None:
        """One has arrived."""
        self._outstanding -= 1
        if self._closed and not self._outstanding:
            self._finish()

    def close(self) -> None:
        """No more records will be added."""
        self._closed = True
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            self._on_done()


class Delivery:
    """One idempotent librdkafka producer. `poll` must be called on the event loop every few milliseconds.

    A record that the broker refuses for good, or that does not arrive within two minutes, cannot be taken back: `fatal`
    is called with a `BrokerError`, the process must end, and its uncommitted input is executed again.
    """

    def __init__(self, settings: Settings, fatal: Callable[[Exception], None]) -> None:
        self._fatal = fatal
        self._settings = settings
        self.records = 0
        self.bytes = 0
        self.producer = Producer(
            {
                **settings.client_config,
                "client.id": settings.instance,
                "enable.idempotence": True,
                "linger.ms": 1,
                "compression.type": "none",
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "queue.buffering.max.messages": 1_000_000,
                "topic.metadata.refresh.interval.ms": 60_000,
            }
        )

    def send(self, unit: WorkUnit, sends: Iterable[Outgoing]) -> None:
        """Sends frames on behalf of a unit."""
        report = self._reporter(unit)
        for out in sends:
            unit.add()
            self.records += 1
            self.bytes += len(out.value)
            try:
                produce_when_room(self.producer, out.topic, out.value, None, out.partition, report)
            except KafkaException as error:
                self._fail(error.args[0], out.topic)

    def _reporter(self, unit: WorkUnit) -> Report:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                unit.delivered()
            else:
                self._fail(error, message.topic() or "")

        return report

    def _fail(self, error: KafkaError, topic: str) -> None:
        self._fatal(
            BrokerError(
                f"Kafka at {self._settings.bootstrap_servers} did not take a record of topic {topic!r}: {error.str()}"
            )
        )

    def poll(self) -> int:
        """Serves delivery reports; returns how many."""
        served: int = self.producer.poll(0)
        return served

    def flush(self, seconds: float) -> bool:
        """Waits for everything sent; False if something is still on its way after `seconds`. Blocks."""
        return self.producer.flush(seconds) == 0
