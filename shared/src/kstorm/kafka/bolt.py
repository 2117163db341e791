"""`KafkaBolt`: writes tuples to a topic, and acks each when the broker has it.

    KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "count"))

A record that the broker does not take fails its tuple, which is then replayed from the spout: nothing is acked that is
not written. A replayed tuple may be written twice.
"""

import asyncio
import copy
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from kstorm.errors import BrokerError, KstormError, NotYetError
from kstorm.kafka.bolt_rules import checked, refuse_serializers
from kstorm.kafka.callback import ProducerCallback, call_back
from kstorm.kafka.held import HeldTuples
from kstorm.kafka.lineage import Lineage
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    TopicSelector,
    TupleToKafkaMapper,
    columns_of_batch,
)
from kstorm.kafka.ports import KafkaPorts, OnBatchDelivery, OnDelivery, RecordWriter
from kstorm.kafka.serializer import (
    AnySerializer,
    Serializer,
    close_serializer,
    column,
    open_serializer,
)
from kstorm.topology import Bolt, Config, OutputCollector, TopologyContext, Tuple, TupleBatch
from kstorm.topology.component import Maybe

log = logging.getLogger(__name__)

_TRY_AGAIN_SECS: Final = 0.05
_TELL_AFTER: Final = 40
"""Trials: a registry's first answer takes a few milliseconds, which is nothing to tell of."""


class KafkaBolt(Bolt):
    """A bolt that ends in a Kafka topic; it emits nothing."""

    def __init__(self) -> None:
        self._selector: TopicSelector | None = None
        self._mapper: TupleToKafkaMapper = FieldNameBasedTupleToKafkaMapper()
        self._key_serializer: Serializer = AnySerializer()
        self._value_serializer: Serializer = AnySerializer()
        self.producer_properties: Mapping[str, Any] | None = None
        """Those of a producer of its own; None if it uses the process's."""
        self._lineage: Lineage | None = None
        self._async = True
        self._fire_and_forget = False
        self._callback: ProducerCallback | None = None
        self._held: HeldTuples
        self._trials = 0
        self._written = 0
        self._skipped = 0
        self._expired = 0
        self._lost = 0
        self._failing: str | None = None

    @property
    def topic(self) -> str | None:
        """The topic that every record goes to; None if it is chosen per tuple, or not yet."""
        return self._selector.topic if isinstance(self._selector, DefaultTopicSelector) else None

    def with_topic_selector(self, selector: TopicSelector | str) -> Self:
        """Chooses the topic per tuple; a string is one topic for all."""
        self._selector = DefaultTopicSelector(selector) if isinstance(selector, str) else selector
        return self

    def with_tuple_to_kafka_mapper(self, mapper: TupleToKafkaMapper) -> Self:
        """Chooses key and message; by default the fields `key` and `message`."""
        self._mapper = mapper
        return self

    def with_key_serializer(self, serializer: Serializer) -> Self:
        """Makes the bytes of keys; by default text and bytes are written as they are, and anything else as JSON."""
        self._key_serializer = copy.copy(serializer)
        return self

    def with_value_serializer(self, serializer: Serializer) -> Self:
        """The same for messages."""
        self._value_serializer = copy.copy(serializer)
        return self

    def with_producer_properties(self, properties: Mapping[str, Any]) -> Self:
        """Gives the bolt a producer of its own with these librdkafka properties; without, it uses the process's.

        Raises `ConfigError` if a serializer is among them, as in Java.
        """
        refuse_serializers(properties)
        self.producer_properties = dict(properties)
        return self

    def with_producer_callback(self, callback: ProducerCallback) -> Self:
        """Has `callback` called with the end of each record and its tuple, after the tuple was acked or failed.

        The bolt has a producer of its own then, which reports every record, and writes tuples one by one: some microseconds
        a record. Without a callback nobody pays for this.
        """
        self._callback = callback
        return self

    def with_async(self, enabled: bool = True) -> Self:
        """Whether the next tuple is executed before the broker has this one's record: the default. Without, one record is
        on its way at a time, in the order of the tuples: as slow as a round trip each."""
        self._async = enabled
        return self

    def with_fire_and_forget(self, enabled: bool = True) -> Self:
        """Whether tuples are acked as soon as their records are on their way: what the broker then does not take is lost, and
        only counted. Off by default."""
        self._fire_and_forget = enabled
        return self

    def with_lineage(
        self,
        topic: str | None = None,
        *,
        partition: str = "partition",
        offset: str = "offset",
        part: str = "part",
        traceparent: bool = False,
        sampled: float = 1.0,
    ) -> Self:
        """Writes where each tuple comes from as headers of its record: see `kstorm.kafka.lineage`.

        `topic` is the source topic's name; the others name the fields with the message's coordinates, which
        `MessageMetadataSchemeAsMultiScheme` gives and the bolts between must hand on, and the field that tells apart the
        records made of one message. Off by default: headers cost a list a record, bytes on the wire and on the disk.
        `traceparent` adds that header, by which consumers with OpenTelemetry continue the trace; `sampled`, from 0 to 1, is the
        share of trees whose header says "sampled": most consumers record those only.
        """
        self._lineage = Lineage(topic, partition, offset, part, sampled if traceparent else None)
        return self

    def refuses_exactly_once(self) -> str:
        """See `Component.refuses_exactly_once`."""
        if self._fire_and_forget:
            return "its KafkaBolt has .with_fire_and_forget(), with which records may be lost: leave it out"
        if self.producer_properties is not None:
            return (
                "its KafkaBolt has a producer of its own (.with_producer_properties), and its records must be in the transaction "
                "of the process, on the same Kafka: leave it out, or write to the other cluster in a topology that reads this "
                "one's sink topic"
            )
        if self._callback is not None:
            return "its KafkaBolt has a producer callback, and nobody hears of single records of a transaction: leave it out"
        return ""

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Opens the producer. Raises `ConfigError` without a topic selector or on settings that cannot work."""
        super().prepare(config, context, collector)
        selector = checked(
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
        # Exactly once nobody replays a tuple that was held for too long, so it is held until its record can be made.
        self._patience = math.inf if config.exactly_once else config.topology_message_timeout_secs
        self._held = HeldTuples(self._patience)
        own = self.producer_properties
        if self._callback is not None:
            self._callback.prepare(config, context)
            own = {
                **(own or {}),
                "delivery.report.only.error": False,
            }  # else nobody knows where a record is
        self._writer: RecordWriter = (
            ports.open_shared_writer() if own is None else ports.open_writer(own)
        )

    def execute(self, tuple: Tuple) -> Maybe:
        """Hands the record to the producer; the tuple is acked or failed on the broker's report.

        A tuple without a topic is acked and counted as skipped, with a warning (Storm's rule). A tuple whose serializer
        raises `NotYetError` is held until it does not, or for the message timeout, after which it fails. While too many are
        held this waits for room.
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
        """As `execute`, for a whole frame: acked when the broker has all its records. If it refuses one, all are written
        again one by one, so that only those fail that must."""
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
            return NotImplemented  # one by one, they are held
        if self._fire_and_forget:
            self.collector.ack_batch(batch)
        return None

    async def cleanup(self) -> None:
        """Closes a producer of its own. Tuples that it still holds are replayed elsewhere."""
        self._held.clear()
        await self._writer.close()
        for serializer in (self._key_serializer, self._value_serializer):
            await asyncio.to_thread(close_serializer, serializer)

    def metrics(self) -> dict[str, float]:
        """`written`: records that the broker has; `skipped`: tuples that no topic was selected for; `held`: tuples that wait
        for their serializer; `expired`: those that waited for it in vain, and failed; `lost`: records that were forgotten and
        that the broker did not take."""
        return {
            "written": self._written,
            "skipped": self._skipped,
            "held": len(self._held),
            "expired": self._expired,
            "lost": self._lost,
        }

    def _write_or_hold(self, topic: str, tuple: Tuple) -> None:
        """Holds a tuple if its record cannot be made yet, or if others wait before it, so that their order is kept."""
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
        except Exception as raised:  # noqa: BLE001 - the user's code may raise anything; the record's fate is settled
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
        """Nobody is there to fail a tuple whose record cannot be made or handed over. Raises `NotYetError` only."""
        try:
            write(topic, tuple)
        except NotYetError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a mapper or a serializer raises
            self._refused(tuple, error)

    def _try_again_soon(self, error: NotYetError) -> None:
        """Tries those that are held in a moment. A trial that nobody needs any more does nothing."""
        self._tell_if_long(error)
        asyncio.get_running_loop().call_later(_TRY_AGAIN_SECS, self._try_again)

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
        """Once, not for each of the thousands of records that wait for a dead broker."""
        if str(error) != self._failing:
            self._failing = str(error)
            self.collector.report_error(error)

    def _skip(self, tuple: Tuple) -> None:
        self._skipped += 1
        if (
            self._skipped.bit_count() == 1
        ):  # the 1st, 2nd, 4th, 8th …: enough to be seen, too few to fill a log
            log.warning(
                "%r: no topic was selected for %d tuples: acked, not written",
                self.context.component,
                self._skipped,
            )
        self.collector.ack(tuple)
