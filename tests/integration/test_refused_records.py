"""With exactly once, a real broker rejects records of a sink: which ones, what replaces them, and
which errors need an operator."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kstorm.core.dead_letters import DeadLetter
from kstorm.core.engine.effects import Transact
from kstorm.core.outgoing import OutgoingRecord
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import BrokerError
from kstorm.runtime.kafka import checkpoint_writer
from kstorm.runtime.kafka.refusals import RecordsRefusedError
from tests.chaos.plain_readers import TopicReader
from tests.integration.conftest import RunTopology
from tests.integration.kafka_topic import Topic
from tests.integration.test_exactly_once import EXACTLY_ONCE, check_exactly
from tests.integration.test_fencing import committed, process, topics
from tests.integration.topic_settings import set_topic

__all__ = ["topics"]

LIMIT = 2_000


def record(
    topic: str, value: Any = b"v", key: bytes | None = b"k", partition: int = 0, task: int = 7
) -> OutgoingRecord:
    return OutgoingRecord(topic, partition, value, key, None, task)


def written(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    """Return the values of all committed records."""
    return [found.value for found in TopicReader(kafka.bootstrap).records(topic)]


async def refused_of(
    kafka: EmbeddedKafka, topics: tuple[str, str], records: Sequence[OutgoingRecord]
) -> list[str]:
    """Write an epoch like an engine: repeat it without rejected records until it succeeds.

    Returns the reasons.
    """
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


async def test_too_long_records_are_separated_from_good_ones(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """The broker rejects the whole batch.

    The good records are written in order, in the same transaction.
    """
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


@pytest.mark.slow
async def test_similar_bad_records_are_rejected_together(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """One trial suffices for all records of this length or more, because an epoch must end in time."""
    topic.create(max_message_bytes=str(LIMIT))
    values = [b"x" * 3 * LIMIT, *[b"x" * (3 * LIMIT + number) for number in range(300)], b"good"]
    reasons = await refused_of(kafka, topics, [record(topic.name, value) for value in values])
    assert (len(reasons), written(kafka, topic.name)) == (301, [b"good"])


@pytest.mark.slow
async def test_too_long_batches_are_split(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """A record is good if its topic accepts it alone."""
    topic.create(max_message_bytes=str(LIMIT))
    values = [b"%d" % number * 100 for number in range(500)]
    assert await refused_of(kafka, topics, [record(topic.name, value) for value in values]) == []
    assert written(kafka, topic.name) == values


@pytest.mark.slow
async def test_compacted_topic_rejects_records_without_a_key(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic
) -> None:
    """Other records are written."""
    topic.create(cleanup_policy="compact")
    records = [
        record(topic.name, b"%d" % number, None if number % 10 == 3 else b"k")
        for number in range(100)
    ]
    reasons = await refused_of(kafka, topics, records)
    assert len(reasons) == 10
    assert written(kafka, topic.name) == [one.value for one in records if one.key is not None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(record("no topic's name", partition=-1), id="a name that no topic can have"),
        pytest.param(record("any", "\ud800"), id="text that has no UTF-8"),
        pytest.param(record("any", 5), id="a value that is no text and no bytes"),
        pytest.param(record("any", b"x" * (17 << 20)), id="longer than any client sends"),
    ],
)
async def test_unsendable_record_is_rejected(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic, bad: OutgoingRecord
) -> None:
    """The effect equals a rejection by the broker. Its neighbours are written."""
    topic.create()
    reasons = await refused_of(
        kafka, topics, [record(topic.name, b"1"), bad, record(topic.name, b"2")]
    )
    assert (len(reasons), written(kafka, topic.name)) == (1, [b"1", b"2"])


@pytest.mark.slow
async def test_missing_topic_ends_the_process(
    kafka: EmbeddedKafka, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be created late, so there are several attempts. The error names it and the remedy."""
    monkeypatch.setattr(checkpoint_writer, "TRANSACTION_SECS", 4.0)
    monkeypatch.setattr(checkpoint_writer, "_PATIENCE_SECS", 6.0)
    input_topic, changelog = topics
    async with process(kafka, input_topic, "place", "name") as writer:
        with pytest.raises(
            BrokerError, match=r"the topic 'nowhere' did not accept a record: .*does it exist"
        ):
            await writer.write(
                changelog, Transact({0: [(b"k", b"1")]}, {0: 5}, [record("nowhere")])
            )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["changelog", "frame"])
async def test_rejected_internal_record_ends_the_process(
    kafka: EmbeddedKafka, topics: tuple[str, str], topic: Topic, kind: str
) -> None:
    """A state change or a frame cannot become a dead letter.

    The error names the topic and the remedy.
    """
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


@pytest.mark.slow
def test_topology_continues_after_rejected_records(
    run_topology: RunTopology, kafka: EmbeddedKafka
) -> None:
    """Rejected words become dead letters with full details.

    No process dies, and every other word counts once.
    """
    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine:
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
    """Limit the batch size of a topic."""
    set_topic(
        AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}),
        topic,
        "max.message.bytes",
        size,
    )
