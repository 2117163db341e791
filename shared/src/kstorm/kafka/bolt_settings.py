"""Settings of a `KafkaBolt`. Invalid and contradictory settings are refused."""

import copy
from collections.abc import Mapping
from typing import Any, Self

from kstorm.errors import ConfigError
from kstorm.fitting import Share, Text, checked
from kstorm.kafka.callback import ProducerCallback
from kstorm.kafka.lineage import Lineage
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldIndexTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    FieldNameTopicSelector,
    TopicSelector,
    TupleToKafkaMapper,
)
from kstorm.kafka.serializer import AnySerializer, Serializer
from kstorm.topology import Fields
from kstorm.topology.component import Component


class KafkaBoltSettings(Component):
    """Fluent configuration of the bolt."""

    def __init__(self) -> None:
        self._selector: TopicSelector | None = None
        self._mapper: TupleToKafkaMapper = FieldNameBasedTupleToKafkaMapper()
        self._key_serializer: Serializer = AnySerializer()
        self._value_serializer: Serializer = AnySerializer()
        self.producer_properties: Mapping[str, Any] | None = None
        """Properties of the bolt's own producer, or None if it uses the process's producer."""
        self._lineage: Lineage | None = None
        self._async = True
        self._fire_and_forget = False
        self._callback: ProducerCallback | None = None

    @property
    def topic(self) -> str | None:
        """The topic of every record, or None if it is chosen per tuple or not set yet."""
        return self._selector.topic if isinstance(self._selector, DefaultTopicSelector) else None

    @checked()
    def with_topic_selector(self, selector: TopicSelector | str) -> Self:
        """Choose the topic per tuple. A string selects one topic for all tuples."""
        self._selector = DefaultTopicSelector(selector) if isinstance(selector, str) else selector
        return self

    @checked()
    def with_tuple_to_kafka_mapper(self, mapper: TupleToKafkaMapper) -> Self:
        """Choose key and message. Default: the fields `key` and `message`."""
        self._mapper = mapper
        return self

    @checked()
    def with_key_serializer(self, serializer: Serializer) -> Self:
        """Serialize keys. Default: text and bytes as they are, anything else as JSON."""
        self._key_serializer = copy.copy(serializer)
        return self

    @checked()
    def with_value_serializer(self, serializer: Serializer) -> Self:
        """Serialize messages. Default: as for keys."""
        self._value_serializer = copy.copy(serializer)
        return self

    @checked()
    def with_producer_properties(self, properties: Mapping[str, Any]) -> Self:
        """Give the bolt its own producer with these librdkafka properties.

        By default it uses the process's producer. Raises `ConfigError` if the properties contain a
        serializer, as in Java.
        """
        _reject_serializers(properties)
        self.producer_properties = dict(properties)
        return self

    @checked()
    def with_producer_callback(self, callback: ProducerCallback) -> Self:
        """Call `callback` with the result of each record and its tuple, after the ack or fail.

        The bolt then gets its own producer, which reports every record. It also writes tuples one
        by one, which costs a few microseconds per record.
        """
        self._callback = callback
        return self

    @checked()
    def with_async(self, enabled: bool = True) -> Self:
        """Execute the next tuple before the broker has this one's record (the default).

        If disabled, records are written one at a time in the order of the tuples, each at the cost
        of a round trip.
        """
        self._async = enabled
        return self

    @checked()
    def with_fire_and_forget(self, enabled: bool = True) -> Self:
        """Ack tuples as soon as their records are queued for sending. Default: off.

        Records that the broker then rejects are lost and only counted.
        """
        self._fire_and_forget = enabled
        return self

    @checked()
    def with_lineage(
        self,
        topic: Text | None = None,
        *,
        partition: Text = "partition",
        offset: Text = "offset",
        part: Text = "part",
        traceparent: bool = False,
        sampled: Share = 1.0,
    ) -> Self:
        """Write each tuple's origin as headers of its record. Default: off.

        See `kstorm.kafka.lineage` for the headers.
        `topic` is the name of the source topic. `partition` and `offset` name the fields with the
        message's coordinates. `MessageMetadataSchemeAsMultiScheme` provides these fields, and the
        bolts in between must pass them on. `part` names the field that distinguishes several
        records made from one message.

        `traceparent` adds that header, so that consumers with OpenTelemetry continue the trace.
        `sampled` is the share of trees, from 0 to 1, whose header is flagged "sampled". Most
        consumers record only those.

        The headers cost one list per record and take space on the network and on disk.
        """
        self._lineage = Lineage(topic, partition, offset, part, sampled if traceparent else None)
        return self

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        """Return which field an input lacks, or ""."""
        mapper, selector = self._mapper, self._selector
        for (component, stream), fields in inputs.items():
            has = f"the stream {stream!r} of {component!r} has {', '.join(fields) or 'no fields'}"
            if (
                type(mapper) is FieldNameBasedTupleToKafkaMapper
                and mapper.message_field not in fields
            ):
                return (
                    f"its KafkaBolt writes the field {mapper.message_field!r}, but {has}: name one "
                    "of these in FieldNameBasedTupleToKafkaMapper(key_field, message_field)"
                )
            if isinstance(selector, FieldNameTopicSelector | FieldIndexTopicSelector):
                refusal = selector.refuses(fields)
                if refusal:
                    return f"its KafkaBolt {refusal}, but {has}: name one that exists, or a default"
        return ""

    def refuses_exactly_once(self) -> str:
        if self._fire_and_forget:
            return "its KafkaBolt has .with_fire_and_forget(), which may lose records: leave it out"
        if self.producer_properties is not None:
            return (
                "its KafkaBolt has its own producer (.with_producer_properties), but its records "
                "must be part of the process's transaction, on the same Kafka: leave it out, or "
                "write to the other cluster with a topology that reads this one's sink topic"
            )
        if self._callback is not None:
            return (
                "its KafkaBolt has a producer callback, but transactions do not report single "
                "records: leave it out"
            )
        return ""


def _reject_serializers(properties: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the producer properties contain a serializer."""
    for side in ("key", "value"):
        if (serializer := properties.get(f"{side}.serializer")) is not None:
            raise ConfigError(
                f"the producer property {side}.serializer is {serializer!r}: use "
                f".with_{side}_serializer(StringSerializer()) instead, or leave it out, because "
                "text needs no serializer"
            )


def checked_topic_selector(
    component: str,
    selector: TopicSelector | None,
    asynchronous: bool,
    fire_and_forget: bool,
    properties: Mapping[str, Any] | None,
) -> TopicSelector:
    """Return the topic selector. Raises `ConfigError` if it is missing or settings contradict."""
    if selector is None:
        raise ConfigError(
            f"the KafkaBolt {component!r} has no topic: add .with_topic_selector('a-topic')"
        )
    if fire_and_forget and not asynchronous:
        raise ConfigError(
            f"the KafkaBolt {component!r} cannot both wait for each record and for none: leave "
            "out either .with_async(False) or .with_fire_and_forget()"
        )
    for name in ("acks", "request.required.acks"):
        if str((properties or {}).get(name)) == "0" and not fire_and_forget:
            raise ConfigError(
                f"the KafkaBolt {component!r} has the producer property {name}=0, with which the "
                "broker confirms no records, so no tuple could be acked: leave it out, or add "
                ".with_fire_and_forget()"
            )
    return selector
