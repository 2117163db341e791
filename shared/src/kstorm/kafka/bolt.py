"""`KafkaBolt`: writes tuples to a topic and acks each one once the broker has its record.

    mapper = FieldNameBasedTupleToKafkaMapper("word", "count")
    KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(mapper)

If the broker rejects a record, its tuple fails and the spout replays it, so no tuple is acked
before it is written. A replayed tuple may be written twice.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kstorm.errors import BrokerError, KstormError, NotYetError
from kstorm.kafka.bolt_settings import KafkaBoltSettings, checked_topic_selector
from kstorm.kafka.callback import call_back
from kstorm.kafka.mapper import DefaultTopicSelector, columns_of_batch
from kstorm.kafka.ports import KafkaPorts, OnBatchDelivery, OnDelivery, RecordWriter
from kstorm.kafka.serializer import close_serializer, column, open_serializer
from kstorm.kafka.serializer_backlog import SerializerBacklog
from kstorm.topology import Bolt, Config, OutputCollector, TopologyContext, Tuple, TupleBatch
from kstorm.topology.component import Maybe
from kstorm.topology.context import CLOCK

log = logging.getLogger(__name__)

_TRY_AGAIN_SECS: Final = 0.05
_TELL_AFTER: Final = 40
"""Number of retries before the wait is reported. A first registry lookup normally takes a few ms."""


class KafkaBolt(KafkaBoltSettings, Bolt):
    """A bolt that writes to a Kafka topic. It emits nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._held: SerializerBacklog
        self._trials = 0
        self._written = 0
        self._skipped = 0
        self._expired = 0
        self._lost = 0
        self._failing: str | None = None

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Open the producer. Raises `ConfigError` without a topic selector or on bad settings."""
        super().prepare(config, context, collector)
        selector = checked_topic_selector(
            context.component,
            self._selector,
            self._async,
            self._fire_and_forget,
            self.producer_properties,
        )
        self._topic_of = selector.get_topic
        self._lineage = self._lineage and self._lineage.of_topology(context.topology.name)
        ports = KafkaPorts.of(context)
        open_serializer(self._key_serializer, is_key=True)
        open_serializer(self._value_serializer, is_key=False)
        # With exactly-once processing, a tuple that timed out is not replayed, so it is held until
        # its record can be built.
        self._patience = math.inf if config.exactly_once else config.topology_message_timeout_secs
        clock = context.resources.get(CLOCK)
        self._simulated = clock is not None
        self._held = SerializerBacklog(self._patience, clock or time.monotonic)
        own = self.producer_properties
        if self._callback is not None:
            self._callback.prepare(config, context)
            # By default only failed deliveries carry a record, but the callback needs the offset of
            # every one.
            own = {**(own or {}), "delivery.report.only.error": False}
        self._writer: RecordWriter = (
            ports.open_shared_writer() if own is None else ports.open_writer(own)
        )

    def execute(self, tuple: Tuple) -> Maybe:
        """Pass the record to the producer. The tuple is acked or failed when the broker responds.

        As in Storm, a tuple without a topic is acked with a warning, and counted as skipped. If the
        serializer raises `NotYetError`, the tuple is held and retried, and fails after the message
        timeout. While the buffer of held tuples is full, this method waits for space.
        """
        if tuple.is_tick:
            return None
        topic = self._topic_of(tuple)
        if not topic:
            self._skip(tuple)
            return None
        if not self._async:
            return self._write_and_wait(topic, tuple)
        if self._held.full:
            return self._wait_for_room(topic, tuple)
        self._write_or_hold(topic, tuple)
        return None

    def execute_batch(self, batch: TupleBatch) -> Any:
        """Write a whole frame, and ack it when the broker has all its records.

        If the broker rejects one record, all tuples are written again one by one, so that only the
        rejected ones fail.
        """
        columns = columns_of_batch(self._mapper)
        if (
            type(self._selector) is not DefaultTopicSelector
            or columns is None
            or not self._async
            or self._held
            or self._callback is not None
        ):
            return NotImplemented
        topic = self._selector.topic
        keys, messages = columns(batch)
        on_done: OnBatchDelivery = partial(self._batch_delivered, topic, batch)
        if self._fire_and_forget:
            on_done = partial(self._batch_forgotten, len(batch))
        try:
            self._writer.write_batch(
                topic,
                column(self._key_serializer, topic, keys),
                column(self._value_serializer, topic, messages),
                on_done,
                None if self._lineage is None else self._lineage.of_batch(batch),
            )
        except NotYetError:
            # The tuples are executed one by one, so that those that cannot be serialized yet are
            # held.
            return NotImplemented
        if self._fire_and_forget:
            self.collector.ack_batch(batch)
        return None

    async def cleanup(self) -> None:
        """Close the bolt's own producer, if any. Tuples that are still held are replayed to another
        task."""
        self._held.clear()
        await self._writer.close()
        for serializer in (self._key_serializer, self._value_serializer):
            await asyncio.to_thread(close_serializer, serializer)

    def metrics(self) -> dict[str, float]:
        """Return the counters of this task.

        - `written`: records that the broker has.
        - `skipped`: tuples without a topic.
        - `held`: tuples that wait for their serializer.
        - `expired`: tuples that failed because this wait timed out.
        - `lost`: fire-and-forget records that the broker rejected.
        """
        return {
            "written": self._written,
            "skipped": self._skipped,
            "held": len(self._held),
            "expired": self._expired,
            "lost": self._lost,
        }

    def _write_or_hold(self, topic: str, tuple: Tuple) -> None:
        """Hold the tuple if its record cannot be built yet, or if earlier tuples are held, to keep
        the order."""
        if self._held:
            self._held.add(topic, tuple)
            return
        try:
            self._send(topic, tuple)
        except NotYetError as error:
            self._held.add(topic, tuple)
            self._try_again_soon(error)

    async def _wait_for_room(self, topic: str, tuple: Tuple) -> None:
        await self._held.room()
        self._write_or_hold(topic, tuple)

    def _send(self, topic: str, tuple: Tuple) -> None:
        if self._fire_and_forget:
            self._write(topic, tuple, partial(self._forgotten, tuple))
            self.collector.ack(tuple)
        else:
            self._write(topic, tuple, partial(self._delivered, tuple))

    def _write(self, topic: str, tuple: Tuple, on_delivery: OnDelivery) -> None:
        key = self._key_serializer.serialize(topic, self._mapper.get_key_from_tuple(tuple))
        value = self._value_serializer.serialize(topic, self._mapper.get_message_from_tuple(tuple))
        headers = None if self._lineage is None else self._lineage.of_tuple(tuple)
        try:
            self._writer.write(topic, key, value, on_delivery, headers)
        except BrokerError as error:
            self._call_back(tuple, error, None)
            raise

    async def _write_and_wait(self, topic: str, tuple: Tuple) -> None:
        reported = asyncio.Event()

        def delivered(error: object | None, record: object) -> None:
            self._delivered(tuple, error, record)
            reported.set()

        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._write(topic, tuple, delivered)
            except NotYetError as error:
                self._tell_if_long(error)
                if time.monotonic() >= deadline:
                    self._expire(tuple)
                    return
                await asyncio.sleep(_TRY_AGAIN_SECS)
            else:
                self._trials = 0
                break
        await reported.wait()

    def _delivered(self, tuple: Tuple, error: object | None, record: object) -> None:
        if error is None:
            self._written += 1
            self._failing = None
            self.collector.ack(tuple)
        else:
            self._refused(tuple, error)
        self._call_back(tuple, error, record)

    def _refused(self, tuple: Tuple, error: object) -> None:
        self._tell(BrokerError(f"records of {self.context.component!r} are not written: {error}"))
        self.collector.fail(tuple)

    def _forgotten(self, tuple: Tuple, error: object | None, record: object) -> None:
        self._batch_forgotten(1, [] if error is None else [error])
        self._call_back(tuple, error, record)

    def _call_back(self, tuple: Tuple, error: object | None, record: object) -> None:
        if self._callback is None:
            return
        try:
            call_back(self._callback, tuple, error, record)
        except Exception as raised:  # noqa: BLE001 - user code; the tuple is already done
            self.collector.report_error(raised)

    def _batch_forgotten(self, size: int, errors: Sequence[object]) -> None:
        self._written += size - len(errors)
        self._lost += len(errors)
        if errors:
            self._tell(BrokerError(f"records of {self.context.component!r} are lost: {errors[0]}"))
        else:
            self._failing = None

    def _batch_delivered(self, topic: str, batch: TupleBatch, errors: Sequence[object]) -> None:
        if not errors:
            self._written += len(batch)
            self._failing = None
            self.collector.ack_batch(batch)
            return
        for tuple in batch.tuples():
            self._without_raising(topic, tuple, self._write_or_hold)

    def _without_raising(
        self, topic: str, tuple: Tuple, write: Callable[[str, Tuple], None]
    ) -> None:
        """Fail the tuple if writing raises an error other than `NotYetError`, because no caller
        handles errors."""
        try:
            write(topic, tuple)
        except NotYetError:
            raise
        except Exception as error:  # noqa: BLE001 - mappers and serializers may raise anything
            self._refused(tuple, error)

    def _try_again_soon(self, error: NotYetError) -> None:
        """Schedule a retry of the held tuples. A superfluous retry does nothing."""
        self._tell_if_long(error)
        if self._simulated:
            return  # the cluster calls `try_held`
        asyncio.get_running_loop().call_later(_TRY_AGAIN_SECS, self._try_again)

    def try_held(self) -> None:
        """Try to write the held tuples again. A simulated cluster calls this as time passes."""
        if self._held:
            self._try_again()

    def _try_again(self) -> None:
        for tuple in self._held.take_expired():
            self._expire(tuple)
        while self._held:
            topic, tuple = self._held.first.topic, self._held.first.tuple
            try:
                self._without_raising(topic, tuple, self._send)
            except NotYetError as error:
                self._try_again_soon(error)
                return
            self._held.take_first()
        self._trials = 0

    def _expire(self, tuple: Tuple) -> None:
        self._expired += 1
        self.collector.fail(tuple)

    def _tell_if_long(self, error: NotYetError) -> None:
        self._trials += 1
        if self._trials > _TELL_AFTER:
            self._tell(error)

    def _tell(self, error: KstormError) -> None:
        """Report an error once, and not for each of thousands of records that wait for a broker."""
        if str(error) != self._failing:
            self._failing = str(error)
            self.collector.report_error(error)

    def _skip(self, tuple: Tuple) -> None:
        self._skipped += 1
        # Warn at the 1st, 2nd, 4th, 8th … skipped tuple: often enough to be noticed, without
        # flooding the log.
        if self._skipped.bit_count() == 1:
            log.warning(
                "%r: no topic was selected for %d tuples, which were acked but not written",
                self.context.component,
                self._skipped,
            )
        self.collector.ack(tuple)
