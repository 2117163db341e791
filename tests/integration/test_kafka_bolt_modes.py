"""The write modes of `KafkaBolt` on a real broker: serializers, headers, sync, fire-and-forget, and
a broker that dies.

The schema registry is a stub (`tests.registry_stub`).
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from kstorm.dev.servers import EmbeddedKafka
from kstorm.dev.topic_reader import consume_to
from kstorm.errors import BrokerError
from kstorm.kafka import (
    FieldNameTopicSelector,
    KafkaBolt,
    LongSerializer,
    ProducerCallback,
    RecordMetadata,
    SchemeAsMultiScheme,
    StringSerializer,
)
from kstorm.kafka.scheme import close_scheme, deserializer, open_scheme
from kstorm.registry import AvroScheme, AvroSerializer, SchemaRegistry
from kstorm.topology import Config, Fields, Source, Tuple, TupleBatch
from tests.integration.kafka_topic import Topic
from tests.integration.test_kafka_sink import Outcomes, bolt_context, outcome, word
from tests.registry_stub import RegistryStub
from tests.unit.registry.test_registry import AVRO, at_last

SOURCE = Source("split", "default", 1, Fields("key", "message", "partition", "offset", "part"))


def prepared(topic: Topic, bolt: KafkaBolt, **properties: Any) -> Outcomes:
    outcomes = Outcomes()
    bolt.with_topic_selector(topic.name).prepare(
        Config(), bolt_context(topic, bolt, **properties), outcomes
    )
    return outcomes


def records(topic: Topic, count: int) -> list[Message]:
    """Return the first records of the topic's only partition."""
    consumer = Consumer(
        {**topic.client_config, "group.id": topic.name, "enable.auto.commit": False}
    )
    try:
        return [
            message for some in consume_to(consumer, topic.name, {0: count}, {}) for message in some
        ]
    finally:
        consumer.close()


def ends(topic: Topic) -> int:
    """Return the number of records in the topic."""
    consumer = Consumer({**topic.client_config, "group.id": topic.name})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic.name, 0), 10.0)
        return end
    finally:
        consumer.close()


@pytest.mark.slow
async def test_killed_broker_loses_no_acked_tuple(tmp_path: Path) -> None:
    """The broker is killed during the writes and restarted.

    Each tuple is acked or failed. Acked records exist, and failed tuples are written when they are
    replayed.
    """
    with EmbeddedKafka(tmp_path, quick_start=True) as kafka:
        topic = Topic("sink", kafka).create()
        bolt = KafkaBolt()
        outcomes = prepared(
            topic, bolt, **{"message.timeout.ms": 2000, "reconnect.backoff.max.ms": 500}
        )
        sent: list[str] = []

        def write(count: int) -> None:
            names = [f"w{number}" for number in range(len(sent), len(sent) + count)]
            sent.extend(names)
            bolt.execute_batch(TupleBatch(word("", "").source, [names, names]))
            bolt.execute(word(f"single{len(sent)}", f"single{len(sent)}"))
            sent.append(f"single{len(sent)}")

        write(50)
        await outcome(outcomes, 51)
        killing = asyncio.create_task(asyncio.to_thread(kafka.process.kill))
        while not killing.done():
            write(50)
            await asyncio.sleep(0.002)
        write(50)
        await outcome(outcomes, len(sent))
        assert set(outcomes.failed) >= set(sent[-51:])
        await asyncio.to_thread(kafka.start)
        replayed = list(outcomes.failed)
        for name in replayed:
            bolt.execute(word(name, name))
        await outcome(outcomes, len(sent) + len(replayed))
        assert outcomes.failed == replayed
        assert sorted(outcomes.acked) == sorted(sent)
        written = {
            (message.value() or b"").decode()
            for message in await asyncio.to_thread(records, topic, ends(topic))
        }
        assert written >= set(outcomes.acked)
        assert any("are not written" in str(error) for error in outcomes.errors)


@pytest.mark.slow
async def test_tuple_without_a_topic_is_acked_and_counted(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """The bolt logs a warning and writes nothing for it. Tuples with a topic are written."""
    topic.create()
    bolt = KafkaBolt().with_topic_selector(FieldNameTopicSelector("key"))
    outcomes = Outcomes()
    bolt.prepare(Config(), bolt_context(topic, bolt), outcomes)
    for key in ("", topic.name, ""):
        bolt.execute(word(key, "m"))
    await outcome(outcomes, 3)
    assert (sorted(outcomes.acked), outcomes.failed) == (["", "", topic.name], [])
    assert (bolt.metrics()["skipped"], bolt.metrics()["written"], ends(topic)) == (2, 1, 1)
    assert (
        "'sink': no topic was selected for 2 tuples, which were acked but not written"
        in caplog.text
    )


@pytest.mark.slow
async def test_sync_mode_writes_one_record_at_a_time(topic: Topic) -> None:
    """When `execute` returns, the broker has the record and the tuple is acked."""
    topic.create()
    bolt = KafkaBolt().with_async(False)
    outcomes = prepared(topic, bolt)
    for number in range(3):
        executing = bolt.execute(word(f"w{number}", "m"))
        assert executing is not None
        await executing
        assert len(outcomes.acked) == number + 1 == ends(topic)
    assert [message.key() for message in records(topic, 3)] == [b"w0", b"w1", b"w2"]


async def test_sync_mode_fails_rejected_records(topic: Topic) -> None:
    """`execute` returns with the tuple failed, and the next tuple follows."""
    bolt = KafkaBolt().with_async(False)
    outcomes = prepared(topic, bolt, **{"message.timeout.ms": 1500})
    lost = bolt.execute(word("lost", "m"))
    assert lost is not None
    await lost
    assert (outcomes.acked, outcomes.failed) == ([], ["lost"])
    topic.create()
    written = bolt.execute(word("written", "m"))
    assert written is not None
    await written
    assert (outcomes.acked, outcomes.failed, ends(topic)) == (["written"], ["lost"], 1)


@pytest.mark.slow
async def test_fire_and_forget_counts_lost_records(topic: Topic) -> None:
    """Tuples are acked at once. A record for a missing topic is counted, not failed."""
    bolt = KafkaBolt().with_fire_and_forget()
    outcomes = prepared(topic, bolt, **{"message.timeout.ms": 1500})
    bolt.execute(word("a", "lost"))
    assert outcomes.acked == ["a"]
    async with asyncio.timeout(30):
        while not bolt.metrics()["lost"]:
            await asyncio.sleep(0.01)
    assert outcomes.failed == []
    assert "are lost" in str(outcomes.errors[0])
    topic.create()
    bolt.execute_batch(TupleBatch(word("", "").source, [["b", "c"], ["1", "2"]]))
    async with asyncio.timeout(30):
        while bolt.metrics()["written"] < 2:
            await asyncio.sleep(0.01)
    assert [message.key() for message in records(topic, 2)] == [b"b", b"c"]


class Ends(ProducerCallback):
    """Keeps the result of each record."""

    found: list[tuple[str, RecordMetadata | None, BrokerError | None]]

    def prepare(self, config: Config, context: object) -> None:
        self.found = []

    def on_completion(
        self, metadata: RecordMetadata | None, error: BrokerError | None, tuple: Tuple
    ) -> None:
        self.found.append((tuple["key"], metadata, error))


@pytest.mark.slow
async def test_callback_gets_the_place_or_error_of_each_record(topic: Topic) -> None:
    """It does not change which tuples are acked and failed."""
    ends = Ends()
    bolt = (
        KafkaBolt()
        .with_producer_callback(ends)
        .with_producer_properties({"message.timeout.ms": 1500})
    )
    outcomes = prepared(topic, bolt)
    bolt.execute(word("lost", "m"))
    await outcome(outcomes, 1)
    topic.create()
    batch = TupleBatch(word("", "").source, [["a", "b"], ["1", "2"]])
    assert bolt.execute_batch(batch) is NotImplemented
    for each in batch.tuples():
        bolt.execute(each)
    await outcome(outcomes, 3)
    assert (sorted(outcomes.acked), outcomes.failed) == (["a", "b"], ["lost"])
    (lost, metadata, error), *written = ends.found
    assert (lost, metadata) == ("lost", None)
    assert isinstance(error, BrokerError)
    places = [
        (found.topic, found.partition, found.offset) for _, found, _ in written if found is not None
    ]
    assert places == [(topic.name, 0, 0), (topic.name, 0, 1)]
    assert [key for key, _, _ in written] == ["a", "b"]
    assert all(found is not None and found.timestamp > 1_600_000_000_000 for _, found, _ in written)
    await bolt.cleanup()


async def test_records_have_serialized_values_and_lineage(topic: Topic) -> None:
    """A batch and single tuples have equal results. A record without lineage has no headers."""
    topic.create()
    bolt = (
        KafkaBolt()
        .with_key_serializer(StringSerializer())
        .with_value_serializer(LongSerializer())
        .with_lineage("lines")
    )
    outcomes = prepared(topic, bolt)
    ids = np.array([7, 8], np.uint64)
    bolt.execute_batch(
        TupleBatch(SOURCE, [["a", "b"], [1, -1], [3, 3], [70, 71], [0, 5]], ids, ids)
    )
    bolt.execute(Tuple(["c", 2, 3, 72, 1], SOURCE, root=9))
    bolt.execute(word("d", 3))
    await outcome(outcomes, 4)
    found = {message.key(): message for message in records(topic, 4)}
    assert [found[key].value() for key in (b"a", b"b")] == [b"\x00" * 7 + b"\x01", b"\xff" * 8]
    for key, root, offset, part in (
        (b"a", 7, b"70", b"0"),
        (b"b", 8, b"71", b"5"),
        (b"c", 9, b"72", b"1"),
    ):
        assert dict(found[key].headers() or []) == {
            "kstorm-roots": b"%016x" % root,
            "kstorm-source-topic": b"lines",
            "kstorm-source-partition": b"3",
            "kstorm-source-offset": offset,
            "kstorm-source-part": part,
        }
    assert dict(found[b"d"].headers() or []) == {"kstorm-source-topic": b"lines"}


@pytest.mark.slow
async def test_late_registry_loses_nothing(topic: Topic) -> None:
    """Tuples wait for it. Then their records are written in order, and a scheme can read them."""
    topic.create()
    with RegistryStub() as stub:
        registry, stub.answers = SchemaRegistry(stub.url), 503
        bolt = KafkaBolt().with_value_serializer(AvroSerializer(registry, AVRO))
        outcomes = prepared(topic, bolt)
        entries: list[list[Any]] = [
            ["k"] * 3,
            [{"word": f"w{number}", "count": number} for number in range(3)],
        ]
        batch = TupleBatch(word("", "").source, entries)
        assert bolt.execute_batch(batch) is NotImplemented
        for each in batch.tuples():
            bolt.execute(each)
        async with asyncio.timeout(30):
            while len(stub.requests) < 2:
                await asyncio.sleep(0.01)
        assert (outcomes.acked, outcomes.failed, bolt.metrics()["held"]) == ([], [], 3)
        stub.answers = None
        await outcome(outcomes, 3)
        assert outcomes.failed == []
        assert json.loads(stub.schemas[1]["schema"])["name"] == "WordCount"
        assert list(stub.subjects) == [f"{topic.name}-value"]
        scheme = SchemeAsMultiScheme(AvroScheme(registry, "word", "count"))
        open_scheme(scheme)
        read: Any = deserializer(scheme)
        values = await asyncio.to_thread(
            lambda: [
                list(at_last(lambda message=message: read(message))[0])  # type: ignore[misc]
                for message in records(topic, 3)
            ]
        )
        assert values == [["w0", 0], ["w1", 1], ["w2", 2]]
        close_scheme(scheme)
        await bolt.cleanup()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 300])
async def test_batch_with_headers_fails_only_too_large_records(topic: Topic, count: int) -> None:
    """This equals a batch without headers."""
    topic.create()
    bolt = KafkaBolt().with_lineage("lines")
    outcomes = prepared(topic, bolt)
    names = [f"w{number}" for number in range(count)]
    columns: list[list[Any]] = [[*names, "large"], [*names, b"x" * 2_000_000]]
    bolt.execute_batch(TupleBatch(word("", "").source, columns))
    await outcome(outcomes, count + 1)
    assert (sorted(outcomes.acked), outcomes.failed) == (sorted(names), ["large"])
