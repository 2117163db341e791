"""The bolt: its records, their topics, and the time of its acks."""

import asyncio
import copy
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from kstorm.errors import BrokerError, ConfigError, KstormError
from kstorm.kafka import (
    KAFKA,
    DefaultTopicSelector,
    FieldIndexTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    FieldNameTopicSelector,
    KafkaBolt,
)
from kstorm.kafka.serializer import to_bytes
from kstorm.topology import (
    TICK_STREAM,
    Config,
    Fields,
    Placed,
    Source,
    Spout,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World

FIELDS = Fields("key", "message", "topic")


@dataclass
class Outcomes:
    """An output collector that records acks and fails."""

    acked: list[Tuple] = field(default_factory=list)
    failed: list[Tuple] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def emit(self, *_: Any, **__: Any) -> list[int]:
        raise AssertionError("a KafkaBolt emits nothing")

    def ack(self, tuple: Tuple) -> None:
        self.acked.append(tuple)

    def fail(self, tuple: Tuple) -> None:
        self.failed.append(tuple)

    def emit_batch(self, *_: Any, **__: Any) -> Placed:
        raise AssertionError

    def ack_batch(self, batch: TupleBatch) -> None:
        self.acked += list(batch.tuples())

    def fail_batch(self, batch: TupleBatch) -> None:
        raise AssertionError

    def reset_timeout(self, tuple: Tuple) -> None:
        raise AssertionError

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)


class Nothing(Spout):
    """Declares the fields of the tests' tuples."""

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(FIELDS)


def context(bolt: KafkaBolt, resources: dict[str, Any]) -> TopologyContext:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Nothing())
    builder.set_bolt("sink", bolt).shuffle_grouping("lines")
    return TopologyContext(builder.build(), "sink", 0, resources)


def prepared(world: "World", bolt: KafkaBolt) -> Outcomes:
    outcomes = Outcomes()
    bolt.prepare(Config(), context(bolt, {KAFKA: world.ports}), outcomes)
    return outcomes


def tup(key: Any = "k", message: Any = "m", topic: Any = "there", fields: Fields = FIELDS) -> Tuple:
    return Tuple([key, message, topic][: len(fields)], Source("lines", "default", 1, fields))


def test_tuple_is_acked_after_the_delivery_report(world: "World") -> None:
    """It is neither acked nor failed earlier."""
    bolt = KafkaBolt().with_topic_selector("counts")
    outcomes = prepared(world, bolt)
    tuple = tup()
    bolt.execute(tuple)
    ((topic, key, value, report),) = world.writer.records
    assert (topic, key, value) == ("counts", b"k", b"m")
    assert outcomes.acked == outcomes.failed == []
    report(None, object())
    assert outcomes.acked == [tuple]
    assert bolt.metrics() == {"written": 1, "skipped": 0, "held": 0, "expired": 0, "lost": 0}


def test_rejected_record_fails_its_tuple(world: "World") -> None:
    """The tuple will be replayed. An unavailable broker is reported once, and not per record."""
    bolt = KafkaBolt().with_topic_selector("counts")
    outcomes = prepared(world, bolt)
    tuples = [tup(), tup(), tup()]
    for tuple in tuples:
        bolt.execute(tuple)
    for *_, report in world.writer.records:
        report("timed out", object())
    assert outcomes.failed == tuples
    assert outcomes.acked == []
    assert len(outcomes.errors) == 1
    assert isinstance(outcomes.errors[0], BrokerError)
    assert "'sink' are not written: timed out" in str(outcomes.errors[0])


@pytest.mark.parametrize(
    ("selector", "topic"),
    [
        (DefaultTopicSelector("one"), "one"),
        (FieldNameTopicSelector("topic"), "there"),
        (FieldNameTopicSelector("missing", "fallback"), "fallback"),
        (FieldIndexTopicSelector(2), "there"),
        (FieldIndexTopicSelector(7, "fallback"), "fallback"),
    ],
)
def test_the_selector_chooses_the_topic(world: "World", selector: Any, topic: str) -> None:
    """The topic is fixed, or comes from a field given by name or position."""
    bolt = KafkaBolt().with_topic_selector(selector)
    prepared(world, bolt)
    bolt.execute(tup())
    assert world.writer.records[0][0] == topic


@pytest.mark.parametrize("selector", [FieldNameTopicSelector("topic"), FieldIndexTopicSelector(2)])
def test_without_a_topic_the_tuple_is_acked_with_a_warning(
    world: "World", selector: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """This is Storm's rule. The bolt counts such tuples, and logs only one warning."""
    bolt = KafkaBolt().with_topic_selector(selector)
    outcomes = prepared(world, bolt)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            bolt.execute(tup(topic=None))
    assert world.writer.records == []
    assert len(outcomes.acked) == 100
    assert bolt.metrics()["skipped"] == 100
    assert len(caplog.records) == 7
    assert "no topic was selected for 64 tuples" in caplog.text


def test_the_mapper_takes_the_named_fields(world: "World") -> None:
    """Key and message may come from any fields."""
    bolt = (
        KafkaBolt()
        .with_topic_selector("t")
        .with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("topic", "key"))
    )
    prepared(world, bolt)
    bolt.execute(tup("the-key", "m", "the-topic"))
    assert world.writer.records[0][1:3] == (b"the-topic", b"the-key")


def test_missing_key_field_means_no_key(world: "World") -> None:
    """This is as in Storm. A missing message field is an error."""
    bolt = KafkaBolt().with_topic_selector("t")
    prepared(world, bolt)
    bolt.execute(tup(key="only", fields=Fields("message")))
    assert world.writer.records[0][1:3] == (None, b"only")
    with pytest.raises(KeyError, match="no field 'message'"):
        bolt.execute(tup(fields=Fields("key")))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"\xff\x00", b"\xff\x00"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ("wörd", "wörd".encode()),
        ("", b""),
        (None, None),
        (7, b"7"),
        (1.5, b"1.5"),
        (True, b"true"),
        ({"word": "a", "count": 2}, b'{"word":"a","count":2}'),
        (["a", None, 3], b'["a",null,3]'),
    ],
)
def test_serialization_of_values(value: Any, written: bytes | None) -> None:
    """Bytes stay, text becomes UTF-8, None becomes a tombstone, and other values become JSON."""
    assert to_bytes(value) == written


def test_a_value_that_json_cannot_hold_is_an_error() -> None:
    """The tuple fails, and the error names the type."""
    with pytest.raises(TypeError, match="object"):
        to_bytes(object())


def test_a_tick_is_not_written(world: "World") -> None:
    """Every bolt gets tick tuples."""
    bolt = KafkaBolt().with_topic_selector("t")
    prepared(world, bolt)
    bolt.execute(Tuple([1], Source("__system", TICK_STREAM, -1, Fields("rate_secs"))))
    assert world.writer.records == []


def test_producer_properties_open_a_separate_producer(world: "World") -> None:
    """Without the properties, the bolt shares the process's producer."""
    prepared(world, KafkaBolt().with_topic_selector("t"))
    assert world.own_writers == []
    bolt = KafkaBolt().with_topic_selector("t").with_producer_properties({"acks": "1"})
    prepared(world, bolt)
    assert world.own_writers == [{"acks": "1"}]
    asyncio.run(bolt.cleanup())
    assert world.writer.closed


@pytest.mark.parametrize("side", ["key", "value"])
def test_java_serializer_properties_are_refused_with_a_remedy(side: str) -> None:
    """Storm's documentation sets them as producer properties, but librdkafka does not know them."""
    java = {f"{side}.serializer": "org.apache.kafka.common.serialization.StringSerializer"}
    with pytest.raises(
        ConfigError,
        match=rf"property {side}\.serializer is 'org.*': use \.with_{side}_serializer\(StringS",
    ):
        KafkaBolt().with_producer_properties(java)


def test_a_task_runs_a_copy() -> None:
    """Every task deep-copies the template in the topology."""
    assert copy.deepcopy(
        KafkaBolt().with_topic_selector("t").with_producer_properties({"acks": "1"})
    )


def test_missing_topic_or_clients_are_reported(world: "World") -> None:
    """The errors come when the task is prepared."""
    with pytest.raises(ConfigError, match=r"'sink' has no topic: add \.with_topic_selector"):
        prepared(world, KafkaBolt())
    bolt = KafkaBolt().with_topic_selector("t")
    with pytest.raises(
        KstormError, match="'sink' reads or writes Kafka, but was given no Kafka clients"
    ):
        bolt.prepare(Config(), context(bolt, {}), Outcomes())
