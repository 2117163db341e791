"""`KafkaBolt`: writes tuples to a topic, and acks each when the broker has it.

    KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "count"))

A record that the broker does not take fails its tuple, which is then replayed from the spout: nothing is acked that is
not written. A replayed tuple may be written twice.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    TopicSelector,
    TupleToKafkaMapper,
    to_bytes,
    to_record,
)
from kstorm.kafka.ports import KafkaPorts, RecordWriter
from kstorm.topology import Bolt, Config, OutputCollector, TopologyContext, Tuple, TupleBatch

log = logging.getLogger(__name__)


class KafkaBolt(Bolt):
    """A bolt that ends in a Kafka topic; it emits nothing."""

    def __init__(self) -> None:
        self._selector: TopicSelector | None = None
        self._mapper: TupleToKafkaMapper = FieldNameBasedTupleToKafkaMapper()
        self._properties: Mapping[str, Any] | None = None
        self._written = 0
        self._skipped = 0
        self._failing: str | None = None

    def with_topic_selector(self, selector: TopicSelector | str) -> Self:
        """Chooses the topic per tuple; a string is one topic for all."""
        self._selector = DefaultTopicSelector(selector) if isinstance(selector, str) else selector
        return self

    def with_tuple_to_kafka_mapper(self, mapper: TupleToKafkaMapper) -> Self:
        """Chooses key and message; by default the fields `key` and `message`."""
        self._mapper = mapper
        return self

    def with_producer_properties(self, properties: Mapping[str, Any]) -> Self:
        """Gives the bolt a producer of its own with these librdkafka properties; without, it uses the process's."""
        self._properties = dict(properties)
        return self

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Opens the producer. Raises `ConfigError` without a topic selector or on properties that cannot work."""
        super().prepare(config, context, collector)
        if self._selector is None:
            raise ConfigError(f"the KafkaBolt {context.component!r} has no topic: add .with_topic_selector('a-topic')")
        ports = KafkaPorts.of(context)
        self._topic_of = self._selector.get_topic
        own = self._properties
        self._writer: RecordWriter = ports.open_shared_writer() if own is None else ports.open_writer(own)

    def execute(self, tuple: Tuple) -> None:
        """Hands the record to the producer; the tuple is acked or failed on the broker's report.

        A tuple without a topic is acked and counted as skipped, with a warning (Storm's rule).
        """
        if tuple.is_tick:
            return
        topic = self._topic_of(tuple)
        if not topic:
            self._skip(tuple)
            return
        self._writer.write(
            topic,
            to_bytes(self._mapper.get_key_from_tuple(tuple)),
            to_bytes(self._mapper.get_message_from_tuple(tuple)),
            partial(self._delivered, tuple),
        )

    def execute_batch(self, batch: TupleBatch) -> Any:
        """As `execute`, for a whole frame: acked when the broker has all its records. If it refuses one, all are written
        again one by one, so that only those fail that must."""
        if (
            type(self._selector) is not DefaultTopicSelector
            or type(self._mapper) is not FieldNameBasedTupleToKafkaMapper
        ):
            return NotImplemented
        fields = batch.source.fields
        keys = batch[self._mapper.key_field] if self._mapper.key_field in fields else [None] * len(batch)
        self._writer.write_batch(
            self._selector.topic,
            to_record(keys),
            to_record(batch[self._mapper.message_field]),
            partial(self._batch_delivered, batch),
        )
        return None

    async def cleanup(self) -> None:
        """Closes a producer of its own."""
        await self._writer.close()

    def metrics(self) -> dict[str, float]:
        """`written`: records that the broker has; `skipped`: tuples that no topic was selected for."""
        return {"written": self._written, "skipped": self._skipped}

    def _delivered(self, tuple: Tuple, error: object | None, record: object) -> None:
        if error is None:
            self._written += 1
            self._failing = None
            self.collector.ack(tuple)
            return
        reason = str(error)
        if reason != self._failing:  # once, not for each of the thousands of records that wait for a dead broker
            self._failing = reason
            self.collector.report_error(BrokerError(f"records of {self.context.component!r} are not written: {reason}"))
        self.collector.fail(tuple)

    def _batch_delivered(self, batch: TupleBatch, errors: Sequence[object]) -> None:
        if not errors:
            self._written += len(batch)
            self._failing = None
            self.collector.ack_batch(batch)
            return
        for tuple in batch.tuples():
            try:
                self.execute(tuple)
            except BrokerError as error:
                self._delivered(tuple, error, None)

    def _skip(self, tuple: Tuple) -> None:
        self._skipped += 1
        if self._skipped.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …: enough to be seen, too few to fill a log
            log.warning(
                "%r: no topic was selected for %d tuples: acked, not written", self.context.component, self._skipped
            )
        self.collector.ack(tuple)
