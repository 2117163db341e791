"""The write modes of `KafkaBolt` on a real broker: serializers, headers, sync, fire-and-forget, and
a broker that dies.

The schema registry is a stub (`tests.registry_stub`).
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from kstorm.dev.servers import EmbeddedKafka
from kstorm.dev.topic_reader import consume_to
from kstorm.kafka import (
    KafkaBolt,
    LongSerializer,
    StringSerializer,
)
from kstorm.topology import Config, Fields, Source, Tuple, TupleBatch
from tests.integration.kafka_topic import Topic
from tests.integration.test_kafka_sink import Outcomes, bolt_context, outcome, word

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
