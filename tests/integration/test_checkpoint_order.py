"""The order of a checkpoint: its offsets are sent after the records that they stand for are in the
changelog."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kstorm.core.engine.effects import Transact
from kstorm.core.outgoing import EpochRecords, OutgoingRecord
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import BrokerError, FencedError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka import checkpoint_writer, internal_topics, transactional_producer
from kstorm.runtime.kafka.checkpoint_writer import CheckpointWriter
from tests.integration.recovering import make_table
from tests.integration.test_fencing import committed, process, topics

__all__ = ["topics"]


class Sleepy(Producer):
    """Delays its records until a flush, and sleeps before a commit until it is woken."""

    asleep, woken = threading.Event(), threading.Event()

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__({**config, "linger.ms": 7000})

    def commit_transaction(self, *arguments: Any) -> None:
        self.asleep.set()
        assert self.woken.wait(60)
        super().commit_transaction(*arguments)


def end_of(kafka: EmbeddedKafka, topic: str) -> int:
    """Return the end of partition 0, including open transactions."""
    asking = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "end",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        return int(asking.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1])
    finally:
        asking.close()


async def test_successor_never_starts_after_unread_records(
    kafka: EmbeddedKafka, topics: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process sleeps during a checkpoint and loses its place.

    It wakes up when its successor has recovered, or waits for the open transaction. The successor's
    state and start offset must match.
    """
    topic, changelog = topics
    async with process(kafka, topic, "place", "first") as old:
        await old.write(changelog, Transact({0: [(b"count", b"1")]}, {0: 1}))
    monkeypatch.setattr(checkpoint_writer, "Producer", Sleepy)
    async with process(kafka, topic, "place", "second") as zombie:
        before = end_of(kafka, changelog)
        writing = asyncio.create_task(
            zombie.write(changelog, Transact({0: [(b"count", b"2")]}, {0: 2}))
        )
        assert await asyncio.to_thread(Sleepy.asleep.wait, 30)
        async with process(kafka, topic, "place", "third"):
            heir = make_table(kafka, tmp_path, changelog)
            recovering = asyncio.create_task(heir.open(0))
            while (
                not recovering.done()
                and await asyncio.to_thread(end_of, kafka, changelog) == before
            ):
                await asyncio.sleep(0.05)
            Sleepy.woken.set()
            await asyncio.wait([writing])
            await recovering
            _, offset = await asyncio.to_thread(committed, kafka, changelog, topic)
            assert heir.get(0, b"count") == b"%d" % offset
            heir.close(0)


class Stuck(Producer):
    """The first call to send offsets hangs. Later calls work."""

    released = threading.Event()
    stuck = 0

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        if not Stuck.stuck:
            Stuck.stuck += 1
            # The calls of the next producer may take long on a busy machine.
            vars(checkpoint_writer)["_STUCK_SECS"] = 30.0
            assert self.released.wait(60)
        super().send_offsets_to_transaction(*arguments)


async def test_stuck_offsets_are_written_by_another_producer(
    kafka: EmbeddedKafka, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens once, long before the checkpoint fails.

    The broker rejects the stuck producer later.
    """
    topic, changelog = topics
    monkeypatch.setattr(checkpoint_writer, "Producer", Stuck)
    monkeypatch.setattr(checkpoint_writer, "_STUCK_SECS", 0.5)
    async with process(kafka, topic, "place", "name") as writer, asyncio.timeout(30):
        assert await writer.write(changelog, Transact({0: [(b"count", b"1")]}, {0: 1})) != {}
        Stuck.released.set()
        await writer.write(changelog, Transact({0: [(b"count", b"2")]}, {0: 2}))
        shown = {name: value for name, _, value, _ in writer.samples()}
        assert (Stuck.stuck, shown["transactions_total"], shown["transaction_producers_total"]) == (
            1,
            2,
            1,
        )
        assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([b"1", b"2"], 2)


class Late(Producer):
    """The first transaction fails, and the broker has aborted it and increased its epoch."""

    failed = False

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._config = config

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        if not Late.failed:
            Late.failed = True
            super().flush()
            Producer(self._config).init_transactions(30)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "late", False, False, True))
        super().send_offsets_to_transaction(*arguments)


async def test_transaction_that_the_broker_has_aborted_is_written_again(
    kafka: EmbeddedKafka, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its abort is fenced. The process still has its tasks."""
    topic, changelog = topics
    monkeypatch.setattr(checkpoint_writer, "Producer", Late)
    async with process(kafka, topic, "place", "name") as writer, asyncio.timeout(60):
        await writer.write(changelog, Transact({0: [(b"count", b"1")]}, {0: 1}))
        await writer.write(changelog, Transact({0: [(b"count", b"2")]}, {0: 2}))
        shown = {name: value for name, _, value, _ in writer.samples()}
        assert Late.failed
        assert shown["transactions_aborted_total"] == shown["transaction_producers_total"] == 1
        assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([b"1", b"2"], 2)


async def test_offsets_alone_are_fenced(kafka: EmbeddedKafka, topics: tuple[str, str]) -> None:
    """A checkpoint with offsets but without changes is a transaction.

    Without both, the process makes no transaction.
    """
    topic, changelog = topics
    async with process(kafka, topic, "place", "first") as old:
        assert await old.write(changelog, Transact({0: []}, {0: 5})) == {}
        assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([], 5)
        async with process(kafka, topic, "place", "second") as new:
            await new.write(changelog, Transact({}, {0: 7}))
            assert await old.write(changelog, Transact({0: []}, {})) == {}
            with pytest.raises(FencedError, match="another process has its tasks now"):
                await old.write(changelog, Transact({0: []}, {0: 6}))
        assert await asyncio.to_thread(committed, kafka, changelog, topic) == ([], 7)


async def test_writer_that_cannot_start_names_server_and_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No server listens at port 1."""
    monkeypatch.setattr(transactional_producer, "_CALL_SECS", 0.2)
    for name, seconds in {
        "_ANSWER_SECS": 0.2,
        "_STARTING_SECS": 0.3,
        "_PATIENCE_SECS": 0.5,
    }.items():
        monkeypatch.setattr(internal_topics, name, seconds)
    settings = Settings(topology="a:b", bootstrap_servers="127.0.0.1:1", instance="count-0")
    nobody: Any = None
    writer = CheckpointWriter(settings, "wordcount.count", "wordcount.count", nobody)
    with pytest.raises(
        BrokerError, match=r"127\.0\.0\.1:1 did not accept .*'wordcount\.count-count-0'"
    ):
        await writer.open()
    writer.close()


async def test_records_without_offsets_are_committed(
    kafka: EmbeddedKafka, topics: tuple[str, str]
) -> None:
    """A spout process without partitions has no offset to commit with its watermark."""
    topic, changelog = topics
    async with process(kafka, topic, "place", "first") as writer, asyncio.timeout(30):
        record = OutgoingRecord(changelog, 0, b"idle")
        assert await writer.write("", Transact({}, {}, EpochRecords([record]))) == {}
        found, _ = await asyncio.to_thread(committed, kafka, changelog, topic)
        assert found == [b"idle"]
