"""`KafkaBolt`: writes tuples to a topic, and acks each when the broker has it.

    KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "count"))

A record that the broker does not take fails its tuple, which is then replayed from the spout: nothing is acked that is
not written. A replayed tuple may be written twice.
"""

import asyncio
import copy
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from kstorm.errors import BrokerError, ConfigError, KstormError, NotYetError
from kstorm.kafka.lineage import Lineage
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    TopicSelector,
    TupleToKafkaMapper,
)
from kstorm.kafka.ports import BatchDelivery, Delivery, KafkaPorts, RecordWriter
from kstorm.kafka.serializer import AnySerializer, Serializer, close_serializer, column, open_serializer
from kstorm.topology import Bolt, Config, OutputCollector, TopologyContext, Tuple, TupleBatch
from kstorm.topology.components import Maybe

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
        self._properties: Mapping[str, Any] | None = None
        self._lineage: Lineage | None = None
        self._async = True
        self._fire_and_forget = False
        self._held: list[Tuple] = []
        self._trying = False
        self._trials = 0
        self._written = 0
        self._skipped = 0
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
        for side in ("key", "value"):
            if (serializer := properties.get(f"{side}.serializer")) is not None:
                raise ConfigError(
                    f"the producer property {side}.serializer is {serializer!r}: say .with_{side}_serializer(StringSerializer()) "
                    "instead, or nothing, as text is written as it is"
                )
        self._properties = dict(properties)
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
        self, topic: str | None = None, *, partition: str = "partition", offset: str = "offset", part: str = "part"
    ) -> Self:
        """Writes where each tuple comes from as headers of its record: see `kstorm.kafka.lineage`.

        `topic` is the source topic's name; the others name the fields with the message's coordinates, which
        `MessageMetadataSchemeAsMultiScheme` gives and the bolts between must hand on, and the field that tells apart the
        records made of one message. Off by default: headers cost a list a record, bytes on the wire and on the disk.
        """
        self._lineage = Lineage(topic, partition, offset, part)
        return self

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Opens the producer. Raises `ConfigError` without a topic selector or on settings that cannot work."""
        super().prepare(config, context, collector)
        self._topic_of = self._checked(context.component).get_topic
        ports = KafkaPorts.of(context)
        open_serializer(self._key_serializer, is_key=True)
        open_serializer(self._value_serializer, is_key=False)
        own = self._properties
        self._writer: RecordWriter = ports.open_shared_writer() if own is None else ports.open_writer(own)

    def execute(self, tuple: Tuple) -> Maybe:
        """Hands the record to the producer; the tuple is acked or failed on the broker's report.

        A tuple without a topic is acked and counted as skipped, with a warning (Storm's rule). A tuple whose serializer
        raises `NotYetError` is kept until it does not.
        """
        if tuple.is_tick:
            return None
        topic = self._topic_of(tuple)
        if not topic:
            self._skip(tuple)
            return None
        if not self._async:
            return self._write_and_wait(topic, tuple)
        if self._held and not self._trying:
            self._held.append(tuple)  # behind those, so that their order is kept
            return None
        try:
            if self._fire_and_forget:
                self._write(topic, tuple, self._forgotten)
                self.collector.ack(tuple)
            else:
                self._write(topic, tuple, partial(self._delivered, tuple))
        except NotYetError as error:
            self._hold(tuple, error)
        return None

    def execute_batch(self, batch: TupleBatch) -> Any:
        """As `execute`, for a whole frame: acked when the broker has all its records. If it refuses one, all are written
        again one by one, so that only those fail that must."""
        if (
            type(self._selector) is not DefaultTopicSelector
            or type(self._mapper) is not FieldNameBasedTupleToKafkaMapper
            or not self._async
            or self._held
        ):
            return NotImplemented
        topic, fields = self._selector.topic, batch.source.fields
        keys = batch[self._mapper.key_field] if self._mapper.key_field in fields else [None] * len(batch)
        on_done: BatchDelivery = partial(self._batch_delivered, batch)
        if self._fire_and_forget:
            on_done = partial(self._batch_forgotten, len(batch))
        try:
            self._writer.write_batch(
                topic,
                column(self._key_serializer, topic, keys),
                column(self._value_serializer, topic, batch[self._mapper.message_field]),
                on_done,
                None if self._lineage is None else self._lineage.of_batch(batch),
            )
        except NotYetError:
            return NotImplemented  # one by one, they are kept
        if self._fire_and_forget:
            self.collector.ack_batch(batch)
        return None

    async def cleanup(self) -> None:
        """Closes a producer of its own. Tuples that it still keeps are replayed elsewhere."""
        self._held = []
        await self._writer.close()
        for serializer in (self._key_serializer, self._value_serializer):
            await asyncio.to_thread(close_serializer, serializer)

    def metrics(self) -> dict[str, float]:
        """`written`: records that the broker has; `skipped`: tuples that no topic was selected for; `held`: tuples that wait
        for their serializer; `lost`: records that were forgotten and that the broker did not take."""
        return {"written": self._written, "skipped": self._skipped, "held": len(self._held), "lost": self._lost}

    def _checked(self, component: str) -> TopicSelector:
        """The topic selector; raises `ConfigError` if there is none, or if settings contradict one another."""
        if self._selector is None:
            raise ConfigError(f"the KafkaBolt {component!r} has no topic: add .with_topic_selector('a-topic')")
        if self._fire_and_forget and not self._async:
            raise ConfigError(
                f"the KafkaBolt {component!r} shall wait for each record and for none: leave out either "
                ".with_async(False) or .with_fire_and_forget()"
            )
        for name in ("acks", "request.required.acks"):
            if str((self._properties or {}).get(name)) == "0" and not self._fire_and_forget:
                raise ConfigError(
                    f"the KafkaBolt {component!r} has the producer property {name}=0, with which the broker never says "
                    "whether it took a record, so no tuple could be acked for that: leave it out, or add "
                    ".with_fire_and_forget()"
                )
        return self._selector

    def _write(self, topic: str, tuple: Tuple, on_delivery: Delivery) -> None:
        self._writer.write(
            topic,
            self._key_serializer.serialize(topic, self._mapper.get_key_from_tuple(tuple)),
            self._value_serializer.serialize(topic, self._mapper.get_message_from_tuple(tuple)),
            on_delivery,
            None if self._lineage is None else self._lineage.of_tuple(tuple),
        )

    async def _write_and_wait(self, topic: str, tuple: Tuple) -> None:
        reported = asyncio.Event()

        def delivered(error: object | None, record: object) -> None:
            self._delivered(tuple, error, record)
            reported.set()

        while True:
            try:
                self._write(topic, tuple, delivered)
            except NotYetError as error:
                self._tell_if_long(error)
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
            return
        self._tell(BrokerError(f"records of {self.context.component!r} are not written: {error}"))
        self.collector.fail(tuple)

    def _forgotten(self, error: object | None, record: object) -> None:
        self._batch_forgotten(1, [] if error is None else [error])

    def _batch_forgotten(self, size: int, errors: Sequence[object]) -> None:
        self._written += size - len(errors)
        self._lost += len(errors)
        if errors:
            self._tell(BrokerError(f"records of {self.context.component!r} are lost: {errors[0]}"))
        else:
            self._failing = None

    def _batch_delivered(self, batch: TupleBatch, errors: Sequence[object]) -> None:
        if not errors:
            self._written += len(batch)
            self._failing = None
            self.collector.ack_batch(batch)
            return
        self._execute_again(list(batch.tuples()))

    def _execute_again(self, tuples: Sequence[Tuple]) -> None:
        """Nobody is there to fail a tuple whose record cannot be made or handed over."""
        for tuple in tuples:
            try:
                self.execute(tuple)
            except Exception as error:  # noqa: BLE001 - whatever a mapper or a serializer raises
                self._delivered(tuple, error, None)

    def _hold(self, tuple: Tuple, error: NotYetError) -> None:
        """Keeps a tuple, neither acked nor failed, until its record can be made. A tree that waits too long is replayed."""
        self._held.append(tuple)
        if len(self._held) == 1:
            self._tell_if_long(error)
            asyncio.get_running_loop().call_later(_TRY_AGAIN_SECS, self._try_again)

    def _try_again(self) -> None:
        held, self._held = deque(self._held), []
        self._trying = True
        while held and not self._held:
            self._execute_again([held.popleft()])
        self._trying = False
        self._held += held
        if not self._held:
            self._trials = 0

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
        if self._skipped.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …: enough to be seen, too few to fill a log
            log.warning(
                "%r: no topic was selected for %d tuples: acked, not written", self.context.component, self._skipped
            )
        self.collector.ack(tuple)
