"""`KafkaBolt` on a real broker, without the rest of the engine."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka import KAFKA, JsonScheme, KafkaBolt, KafkaPorts, KafkaSpout, SchemeAsMultiScheme
from kstorm.runtime.kafka.sink import KafkaWriter
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
from kstorm.topology import (
    Config,
    Fields,
    Placed,
    Source,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from tests.integration.kafka_topic import Topic, read


@dataclass
class Outcomes:
    """A bolt's collector that keeps acked and failed tuples."""

    acked: list[Any] = field(default_factory=list)
    failed: list[Any] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def emit(self, *_: Any, **__: Any) -> Sequence[int]:
        raise AssertionError

    def ack(self, tuple: Tuple) -> None:
        self.acked.append(tuple["key"])

    def fail(self, tuple: Tuple) -> None:
        self.failed.append(tuple["key"])

    def emit_batch(self, *_: Any, **__: Any) -> Placed:
        raise AssertionError

    def ack_batch(self, batch: TupleBatch) -> None:
        self.acked += batch["key"]

    def fail_batch(self, batch: TupleBatch) -> None:
        raise AssertionError

    def reset_timeout(self, tuple: Tuple) -> None:
        raise AssertionError

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)


def bolt_context(topic: Topic, bolt: KafkaBolt, **properties: Any) -> TopologyContext:
    """Return the context of a bolt's only task."""
    builder = TopologyBuilder("words")
    scheme = SchemeAsMultiScheme(JsonScheme("key", "message", "partition", "offset", "part"))
    builder.set_spout("lines", KafkaSpout(topic.config(scheme=scheme)))
    builder.set_bolt("sink", bolt).shuffle_grouping("lines")
    ports = KafkaPorts(
        partial(KafkaSource, client_config=topic.client_config),
        ZooKeeperOffsetStores("unused:1").open,
        partial(KafkaWriter, topic.client_config, properties),
        partial(KafkaWriter, topic.client_config),
    )
    return TopologyContext(builder.build(), "sink", 0, {KAFKA: ports})


def word(key: str, message: Any) -> Tuple:
    return Tuple([key, message], Source("lines", "default", 1, Fields("key", "message")))


async def outcome(outcomes: Outcomes, count: int) -> None:
    """Wait until `count` tuples were acked or failed."""
    async with asyncio.timeout(30):
        while len(outcomes.acked) + len(outcomes.failed) < count:
            await asyncio.sleep(0.005)


async def test_tuple_is_acked_when_the_broker_has_its_record(topic: Topic) -> None:
    """This holds for single tuples and for a batch."""
    topic.create()
    bolt, outcomes = KafkaBolt().with_topic_selector(topic.name), Outcomes()
    bolt.prepare(Config(), bolt_context(topic, bolt), outcomes)
    for number in range(50):
        bolt.execute(word(f"w{number}", number))
    columns: list[list[Any]] = [[f"w{number}" for number in range(50, 100)], list(range(50, 100))]
    bolt.execute_batch(TupleBatch(word("", "").source, columns))
    assert outcomes.acked == []
    await outcome(outcomes, 100)
    assert sorted(outcomes.acked) == sorted(f"w{number}" for number in range(100))
    source = topic.source()
    source.assign(topic.at(), 0)
    assert sorted(int(value or b"") for _, value in read(source, 100)) == list(range(100))


async def test_rejected_record_fails_its_tuple(topic: Topic) -> None:
    """The topic of one record does not exist. A record that is too large raises, which fails its
    tuple too.

    The other records of a batch are written.
    """
    bolt, outcomes = KafkaBolt().with_topic_selector(topic.name), Outcomes()
    bolt.prepare(Config(), bolt_context(topic, bolt, **{"message.timeout.ms": 3000}), outcomes)
    bolt.execute(word("lost", "x"))
    await outcome(outcomes, 1)
    assert (outcomes.acked, outcomes.failed) == ([], ["lost"])
    assert "'sink' are not written" in str(outcomes.errors[0])
    with pytest.raises(BrokerError, match=f"a record for topic '{topic.name}' was refused"):
        bolt.execute(word("large", b"x" * 2_000_000))
    topic.create()
    batch = TupleBatch(word("", "").source, [["a", "large", "b"], ["1", b"x" * 2_000_000, "2"]])
    bolt.execute_batch(batch)
    await outcome(outcomes, 4)
    assert (sorted(outcomes.acked), outcomes.failed) == (["a", "b"], ["lost", "large"])


@pytest.mark.slow
async def test_own_producer_of_a_bolt_polls_itself(topic: Topic) -> None:
    """An unknown property is an error with its name."""
    topic.create()
    bolt, outcomes = (
        KafkaBolt().with_topic_selector(topic.name).with_producer_properties({"acks": "1"}),
        Outcomes(),
    )
    bolt.prepare(Config(), bolt_context(topic, bolt), outcomes)
    for round in range(3):
        bolt.execute(word(f"w{round}", "m"))
        await outcome(outcomes, round + 1)
    await bolt.cleanup()
    assert outcomes.acked == ["w0", "w1", "w2"]
    bad = KafkaBolt().with_topic_selector(topic.name).with_producer_properties({"no.such": "a.b.C"})
    with pytest.raises(
        ConfigError, match=r'producer properties of a KafkaBolt are invalid: .*"no\.such"'
    ):
        bad.prepare(Config(), bolt_context(topic, bad), outcomes)
