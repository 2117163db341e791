"""Produces records on behalf of the units of work that caused them."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.record_size import MAX_RECORD_BYTES
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.broker_loss import BrokerLossDetector

_FULL_SECONDS = 0.05

Report = Callable[[KafkaError | None, Message], None]
"""A delivery report callback of librdkafka."""


def produce_when_room(
    producer: Producer,
    topic: str,
    value: str | bytes | None,
    key: str | bytes | None,
    partition: int,
    report: Report | None,
    headers: Any = None,
) -> float:
    """Call `Producer.produce`, and wait while the local queue is full. Returns the seconds waited.

    In this way a slow broker slows the process.
    """
    waited = 0.0
    while True:
        try:
            if headers is None:
                producer.produce(topic, value, key, partition, report)
            else:
                producer.produce(topic, value, key, partition, report, headers=headers)
        except BufferError:
            began = time.monotonic()
            producer.poll(_FULL_SECONDS)
            waited += time.monotonic() - began
        else:
            return waited


class UnitProducer:
    """An idempotent librdkafka producer. Call `poll` on the event loop every few milliseconds.

    If a record is rejected permanently, or is not delivered within two minutes, its work cannot be
    undone. Then this calls `fatal` with a `BrokerError`, and the process must end, so that its
    uncommitted input is executed again. The same happens if the client has lost all broker
    addresses.
    """

    def __init__(self, settings: Settings, fatal: Callable[[Exception], None]) -> None:
        self._fatal = fatal
        self._settings = settings
        self.records = 0
        self.bytes = 0
        self.waited = 0.0
        """Seconds during which its queue was full."""
        self._topic = ""
        self._forgotten = BrokerLossDetector()
        self.client = Producer(
            {
                **self._forgotten.properties,
                **settings.client_config,
                "client.id": settings.instance,
                "enable.idempotence": True,
                "linger.ms": 1,
                "compression.type": "none",
                "message.max.bytes": MAX_RECORD_BYTES,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "queue.buffering.max.messages": 1_000_000,
                "topic.metadata.refresh.interval.ms": 60_000,
            }
        )

    def send(self, unit: Unit, sends: Iterable[OutgoingRecord]) -> None:
        """Send frames on behalf of a unit, which has already counted them."""
        report = self._reporter(unit)
        for out in sends:
            self._topic = out.topic
            self.records += 1
            self.bytes += len(out.value)
            try:
                self.waited += produce_when_room(
                    self.client, out.topic, out.value, out.key, out.partition, report
                )
            except KafkaException as error:
                self._fail(error.args[0], out.topic)

    def count(self, records: Iterable[OutgoingRecord]) -> None:
        """Count the frames of another producer's transaction, and a spout's dead letters and notes,
        which may be tombstones. Records of sinks are not counted."""
        frames = [record.value or b"" for record in records if not record.task]
        self.records += len(frames)
        self.bytes += sum(map(len, frames))

    def _reporter(self, unit: Unit) -> Report:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                unit.delivered()
            else:
                self._fail(error, message.topic() or "")

        return report

    def _fail(self, error: KafkaError, topic: str) -> None:
        self._fatal(
            BrokerError(
                f"Kafka at {self._settings.bootstrap_servers} did not accept a record of topic "
                f"{topic!r}: {error.str()}"
            )
        )

    @property
    def waiting(self) -> int:
        """Number of records in flight, plus the reports that have not been served yet."""
        return len(self.client)

    def poll(self) -> int:
        """Serve delivery reports. Returns their number."""
        served: int = self.client.poll(0)
        if self._forgotten.all:
            self._fatal(self._forgotten.error(self._topic, "writes to"))
        return served

    def flush(self, seconds: float) -> bool:
        """Wait for all records. Returns False if some are left after `seconds`. Blocks."""
        return self.client.flush(seconds) == 0
