"""Exactly once, records of sinks that a real broker refuses: which ones, what comes instead, and what only an operator can mend."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kstorm.core.dead_letters import DeadLetter
from kstorm.core.engine.effects import Transact
from kstorm.core.outgoing import Outgoing
from kstorm.errors import BrokerError
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka import checkpoints
from kstorm.runtime.kafka.refusals import RecordsRefusedError
from tests.chaos.reading import TopicReader
from tests.integration.engine import running
from tests.integration.kafka_topic import Topic
from tests.integration.test_exactly_once import EXACTLY_ONCE, check_exactly
from tests.integration.test_fencing import committed, process, topics
from tests.integration.topic_settings import set_topic

__all__ = ["topics"]

LIMIT = 2_000


def record(
    topic: str, value: Any = b"v", key: bytes | None = b"k", partition: int = 0, task: int = 7
) -> Outgoing:
    return Outgoing(topic, partition, value, key, None, task)


def written(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    """The values of all committed records."""
    return [found.value for found in TopicReader(kafka.bootstrap).records(topic)]


async def refused_of(
    kafka: EmbeddedKafka, topics: tuple[str, str], records: Sequence[Outgoing]
) -> list[str]:
    """Writes an epoch as an engine does: again without what was refused, until it passes. Returns the reasons."""
    topic, changelog = topics
    reasons: list[str] = []
    async with process(kafka, topic, "place", "name") as writer:
        changes, left = {0: [(b"count", b"1")]}, list(records)
        while True:
            try:
                await writer.write(changelog, Transact(changes, {0: 5}, left))
                break
            except RecordsRefusedError as error:
                refused = error.refused
            assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([], -1001)
            assert refused
            reasons += refused.values()
            left = [one for number, one in enumerate(left) if number not in refused]
        assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([b"1"], 5)
    return reasons


async def test_too_long_record_is_separated_from_its_batch(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """A batch is refused as a whole; the good records of it are written, in their order, and in the same transaction as ever."""
    topic.create(max_message_bytes=str(LIMIT))
    good = [b"%d" % number for number in range(200)]
    values = [*good[:100], b"x" * 3 * LIMIT, *good[100:150], b"x" * 2 * LIMIT, *good[150:]]
    reasons = await refused_of(kafka, topics, [record(topic.name, value) for value in values])
    assert written(kafka, topic.name) == good
    assert len(reasons) == 2
    assert all(
        f"for the topic {topic.name!r}: Broker: Message size too large" in reason
        for reason in reasons
    )


async def test_records_with_the_same_defect_are_refused_together(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """However many they are, one trial tells of all that are not shorter: an epoch must pass in time."""
    topic.create(max_message_bytes=str(LIMIT))
    values = [b"x" * 3 * LIMIT, *[b"x" * (3 * LIMIT + number) for number in range(300)], b"good"]
    reasons = await refused_of(kafka, topics, [record(topic.name, value) for value in values])
    assert (len(reasons), written(kafka, topic.name)) == (301, [b"good"])


async def test_too_long_batches_become_shorter(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """No record is bad if its topic takes it alone."""
    topic.create(max_message_bytes=str(LIMIT))
    values = [b"%d" % number * 100 for number in range(500)]
    assert await refused_of(kafka, topics, [record(topic.name, value) for value in values]) == []
    assert written(kafka, topic.name) == values


async def test_records_without_a_key_for_a_compacted_topic(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """Those and no others."""
    topic.create(cleanup_policy="compact")
    records = [
        record(topic.name, b"%d" % number, None if number % 10 == 3 else b"k")
        for number in range(100)
    ]
    reasons = await refused_of(kafka, topics, records)
    assert len(reasons) == 10
    assert written(kafka, topic.name) == [one.value for one in records if one.key is not None]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(record("no topic's name", partition=-1), id="a name that no topic can have"),
        pytest.param(record("any", "\ud800"), id="text that has no UTF-8"),
        pytest.param(record("any", 5), id="a value that is no text and no bytes"),
        pytest.param(record("any", b"x" * (17 << 20)), id="longer than any client sends"),
    ],
)
async def test_unencodable_record_is_refused_like_a_rejected_one(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic, bad: Outgoing
) -> None:
    """It is refused like what the broker refuses, and its neighbours are written."""
    topic.create()
    reasons = await refused_of(
        kafka, topics, [record(topic.name, b"1"), bad, record(topic.name, b"2")]
    )
    assert (len(reasons), written(kafka, topic.name)) == (1, [b"1", b"2"])


async def test_missing_topic_ends_the_process(
    kafka: EmbeddedKafka, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be late, so there are several trials; then the error names it, and what to do."""
    monkeypatch.setattr(checkpoints, "TRANSACTION_SECS", 4.0)
    monkeypatch.setattr(checkpoints, "_PATIENCE_SECS", 6.0)
    input_topic, changelog = topics
    async with process(kafka, input_topic, "place", "name") as writer:
        with pytest.raises(
            BrokerError, match=r"the topic 'nowhere' did not accept a record: .*does it exist"
        ):
            await writer.write(
                changelog, Transact({0: [(b"k", b"1")]}, {0: 5}, [record("nowhere")])
            )


@pytest.mark.parametrize("kind", ["changelog", "frame"])
async def test_rejected_change_or_frame_ends_the_process(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic, kind: str
) -> None:
    """A change of state or a frame is no dead letter; the error names the topic, and what to do."""
    input_topic, changelog = topics
    topic.create(max_message_bytes=str(LIMIT))
    long = b"x" * 2 * LIMIT
    effect = Transact({}, {0: 5}, [record(topic.name, long, task=0)])
    if kind == "changelog":
        changelog, effect = topic.name, Transact({0: [(b"k", long)]}, {0: 5})
    async with process(kafka, input_topic, "place", "name") as writer:
        async with asyncio.timeout(20):
            with pytest.raises(
                BrokerError, match=rf"{topic.name}' did not accept .*raise its max.message.bytes"
            ):
                await writer.write(changelog, effect)


def test_topology_continues_after_refused_records(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Words that the sink's topic does not take are dead letters with all that is known of them, no process dies, and of all other
    words each counts once."""
    with running(
        "wordcount", topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, settings=EXACTLY_ONCE
    ) as engine:
        limit(kafka, engine.sink, LIMIT)
        lives = {worker.name: worker.process.pid for worker in engine.processes.workers}
        text = [f"one two w{number % 7}" for number in range(2_000)]
        long = [f"{number}{'x' * LIMIT}" for number in range(3)]
        engine.produce(
            [sentence for third in range(3) for sentence in (*text[third::3], long[third])]
        )
        engine.await_done("sentences")
        check_exactly(engine, text)
        assert {worker.name: worker.process.pid for worker in engine.processes.workers} == lives
        letters = [
            DeadLetter(**letter)
            for letter in engine.records(engine.processes.topology.dead_letters_topic, partitions=1)
        ]
        assert sorted(letter.component for letter in letters) == ["sink"] * 3
        assert {letter.topic for letter in letters} == {engine.sink}
        assert all("Message size too large" in letter.reason and letter.value for letter in letters)


def limit(kafka: EmbeddedKafka, topic: str, size: int) -> None:
    """Has a topic take no batch that is longer."""
    set_topic(
        AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}),
        topic,
        "max.message.bytes",
        size,
    )
