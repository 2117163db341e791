"""Tables recover from real changelogs: with wrong disks, in pieces, and without blocking the event
loop."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.core.engine.effects import Transact
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import BrokerError
from kstorm.runtime.kafka.producer import produce_when_room
from kstorm.runtime.store import changelog as module
from kstorm.runtime.store.tables import RecoveringTable
from tests.integration.recovering import checkpoint, make_table
from tests.integration.recovery_process import STATUS
from tests.integration.topic_settings import set_topic

Pair = tuple[bytes, bytes | None]
DAY = 86400.0


class Log:
    """A changelog on a real broker, and its tables."""

    def __init__(self, kafka: EmbeddedKafka, name: str) -> None:
        self.kafka, self.name = kafka, name
        self.config: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self.admin = AdminClient(self.config)
        self.create()

    def create(self) -> None:
        new = NewTopic(
            self.name, 1, 1, config={"cleanup.policy": "compact", "delete.retention.ms": "86400000"}
        )
        self.admin.create_topics([new])[self.name].result(30)

    def make_anew(self) -> None:
        self.admin.delete_topics([self.name], operation_timeout=30)[self.name].result(30)
        while self.name in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.05)
        self.create()

    def append(self, pairs: Iterable[Pair]) -> None:
        producer = Producer({**self.config, "linger.ms": 5})
        for key, value in pairs:
            produce_when_room(producer, self.name, value, key, 0, lambda error, message: None)
        assert producer.flush(60) == 0

    def compact_before(self, offset: int) -> None:
        """Remove the records before an offset, like a compaction long ago."""
        set_topic(self.admin, self.name, "cleanup.policy", "delete")
        for deleted in self.admin.delete_records([TopicPartition(self.name, 0, offset)]).values():
            deleted.result(30)

    def append_aborted(self, pair: Pair) -> None:
        producer = Producer({**self.config, "transactional.id": self.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.name, pair[1], pair[0], 0)
        assert producer.flush(30) == 0
        producer.abort_transaction(30)


@pytest.fixture
def log(kafka: EmbeddedKafka, topic_prefix: str) -> Log:
    return Log(kafka, f"{topic_prefix}.state")


async def recover(table: RecoveringTable) -> tuple[dict[bytes, bytes], int]:
    """Open and close a table. Returns its content and the number of records that were read."""
    opened = await table.open(0)
    found = dict(table.items(0))
    table.close(0)
    return found, opened.records


async def test_good_disk_reads_only_missing_records(log: Log, tmp_path: Path) -> None:
    """The first process reads all records, the next ones only newer ones."""
    log.append([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    assert await recover(make_table(log.kafka, tmp_path, log.name)) == ({b"a": b"2", b"b": b"1"}, 3)
    assert await recover(make_table(log.kafka, tmp_path, log.name)) == ({b"a": b"2", b"b": b"1"}, 0)
    log.append([(b"b", None)])
    assert await recover(make_table(log.kafka, tmp_path, log.name)) == ({b"a": b"2"}, 1)


async def test_key_deleted_during_an_absence_does_not_return(log: Log, tmp_path: Path) -> None:
    """The task moves away for a day.

    There the key is deleted and its tombstone compacted. Then the task returns.
    """
    now = time.time()
    log.append([(b"kept", b"1"), (b"deleted", b"1")])
    before, _ = await recover(make_table(log.kafka, tmp_path, log.name, now=lambda: now - DAY))
    assert before == {b"kept": b"1", b"deleted": b"1"}
    log.append([(b"deleted", None), (b"kept", b"2")])
    log.compact_before(3)
    assert await recover(make_table(log.kafka, tmp_path, log.name, now=lambda: now)) == (
        {b"kept": b"2"},
        1,
    )
    assert await recover(make_table(log.kafka, tmp_path, log.name, now=lambda: now)) == (
        {b"kept": b"2"},
        0,
    )


async def test_disk_of_another_topic_is_emptied(
    log: Log, topic_prefix: str, tmp_path: Path
) -> None:
    """Two topologies share a data folder and a component's name. Each has exactly its own keys."""
    other = Log(log.kafka, f"{topic_prefix}.other.state")
    log.append((b"own %d" % key, b"1") for key in range(1000))
    other.append((b"foreign %d" % key, b"1") for key in range(600))
    foreign, _ = await recover(make_table(other.kafka, tmp_path, other.name))
    assert len(foreign) == 600
    own, _ = await recover(make_table(log.kafka, tmp_path, log.name))
    assert own == {b"own %d" % key: b"1" for key in range(1000)}


@pytest.mark.slow
async def test_disk_of_a_recreated_topic_is_emptied(log: Log, tmp_path: Path) -> None:
    """The new log may be longer than the old one, or empty. No old offset remains."""
    log.append((b"old %d" % key, b"1") for key in range(10))
    await recover(make_table(log.kafka, tmp_path, log.name))
    log.make_anew()
    log.append((b"new %d" % key, b"1") for key in range(20))
    assert await recover(make_table(log.kafka, tmp_path, log.name)) == (
        {b"new %d" % key: b"1" for key in range(20)},
        20,
    )
    log.make_anew()
    assert await recover(make_table(log.kafka, tmp_path, log.name)) == ({}, 0)
    log.append((b"third %d" % key, b"1") for key in range(30))
    found, records = await recover(make_table(log.kafka, tmp_path, log.name))
    assert (len(found), records) == (30, 30)


async def test_recovery_reads_only_committed_records(log: Log, tmp_path: Path) -> None:
    """The client properties of the process do not change this."""
    log.append([(b"a", b"1")])
    log.append_aborted((b"a", b"2"))
    table = make_table(
        log.kafka, tmp_path, log.name, kafka_properties={"isolation.level": "read_uncommitted"}
    )
    assert await recover(table) == ({b"a": b"1"}, 1)


@pytest.mark.slow
async def test_interrupted_recovery_resumes(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is cancelled, it closes the partition and keeps its pieces.

    A killed process keeps them too.
    """
    monkeypatch.setattr(module, "_PIECE_KEYS", 1000)
    log.append((b"%d" % key, b"1") for key in range(20_000))
    table, kept = make_table(log.kafka, tmp_path, log.name), asyncio.Event()
    write, loop = table._store.write, asyncio.get_running_loop()

    def piece(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        loop.call_soon_threadsafe(kept.set)

    monkeypatch.setattr(table._store, "write", piece)
    opening = asyncio.create_task(table.open(0))
    await kept.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    found, records = await recover(make_table(log.kafka, tmp_path, log.name))
    assert found == {b"%d" % key: b"1" for key in range(20_000)}
    assert 0 < records <= 19_000


@pytest.mark.slow
async def test_waiting_for_the_lock_of_a_partition_can_be_cancelled(
    log: Log, tmp_path: Path
) -> None:
    """Another process has the partition open."""
    holder, waiting = (make_table(log.kafka, tmp_path, log.name) for _ in range(2))
    await holder.open(0)
    opening = asyncio.create_task(waiting.open(0))
    await asyncio.sleep(0)
    opening.cancel()
    async with asyncio.timeout(10):  # a third of the normal wait
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert waiting._store._store._dbs == {}
    holder.close(0)


@pytest.mark.slow
async def test_recovery_does_not_block_the_event_loop(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It handles probes and heartbeats before and after each stored piece."""
    log.append((b"%d" % key, b"1") for key in range(20_000))
    table, loop, answers = make_table(log.kafka, tmp_path, log.name), asyncio.get_running_loop(), []
    write = table._store.write

    def ask_the_loop() -> None:
        answered = threading.Event()
        loop.call_soon_threadsafe(answered.set)
        answers.append(answered.wait(30))  # times out if this is the loop's own thread

    def piece(*arguments: object) -> None:
        ask_the_loop()
        write(*arguments)  # type: ignore[arg-type]
        ask_the_loop()

    monkeypatch.setattr(table._store, "write", piece)
    assert (await table.open(0)).records == 20_000
    assert len(answers) >= 2 * 20_000 / (module._PIECE_KEYS + 1000)
    assert all(answers)


@pytest.mark.long
@pytest.mark.skipif(
    not STATUS.exists(), reason="asks Linux for the most memory that a process has had"
)
@pytest.mark.parametrize("keys", [600_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_recovery_memory_is_independent_of_the_number_of_keys(
    log: Log, tmp_path: Path, keys: int
) -> None:
    """10 million small keys recover in 300 MB."""
    log.append((b"user-%010d" % key, b"\xce" + key.to_bytes(4, "big")) for key in range(keys))
    command = [
        sys.executable,
        "-m",
        "tests.integration.recovery_process",
        log.kafka.bootstrap,
        log.name,
        str(tmp_path),
    ]
    printed = subprocess.run(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, check=True
    ).stdout
    records, before, most = map(int, printed.split())
    assert records == keys
    assert most - before < 100e6
    assert most < 300e6


@pytest.mark.slow
async def test_missing_changelog_is_named(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """The partition is closed again."""
    table = make_table(kafka, tmp_path, f"{topic_prefix}.none")
    with pytest.raises(BrokerError, match=f"{topic_prefix}.none"):
        await table.open(0)
    assert table._store._store._dbs == {}


class Accepting:
    """A writer that accepts all checkpoints."""

    def __init__(self, log: Log) -> None:
        self._log, self._end = log, 3
        self.before: Callable[[], None] = lambda: None

    async def write(self, _: str, effect: Transact) -> dict[int, int]:
        self.before()
        pairs = [pair for some in effect.changes.values() for pair in some]
        self._log.append(pairs)
        self._end += len(pairs)
        return {0: self._end - 1} if pairs else {}


@pytest.mark.slow
async def test_disk_in_use_stays_current(log: Log, tmp_path: Path) -> None:
    """Writes renew its time.

    So do accepted offsets without writes: an idle task needs no full recovery.
    """
    clock, writer = [time.time() - 10 * DAY], Accepting(log)
    log.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    table = make_table(log.kafka, tmp_path, log.name, now=lambda: clock[0])
    await table.open(0)
    topic = table._copies[0].topic
    clock[0] += DAY
    await checkpoint(table, writer, log.name, {0: [(b"a", b"2")]}, {0: 1}, lambda: clock[0])
    assert table._store.copy(0) == (topic, 3, clock[0])
    clock[0] += DAY
    await checkpoint(table, writer, log.name, {0: []}, {0: 2, 7: 3}, lambda: clock[0])
    assert table._store.copy(0) == (topic, 3, clock[0])
    table.close(0)
    await checkpoint(table, writer, log.name, {0: [(b"a", b"3")]}, {0: 4}, lambda: clock[0])
    assert await recover(table) == ({b"a": b"3", b"b": b"1", b"c": b"1"}, 1)


@pytest.mark.slow
async def test_late_write_of_an_earlier_tenure_is_dropped(log: Log, tmp_path: Path) -> None:
    """The partition was closed during a checkpoint, and is open again when its changes arrive."""
    table = make_table(log.kafka, tmp_path, log.name)
    await table.open(0)
    log.append([(b"a", b"1"), (b"a", b"2")])
    table.close(0)
    table.keep(0, [(b"a", b"1")], 0, time.time())
    await table.open(0)
    table.keep(0, [(b"a", b"1")], 0, time.time())
    assert table.get(0, b"a") == b"2"
    table.close(0)


@pytest.mark.slow
async def test_age_of_a_disk_counts_from_the_start_of_the_last_write(
    log: Log, tmp_path: Path
) -> None:
    """The process pauses before it stores a commit. Meanwhile a successor may delete keys."""
    clock, writer = [time.time() - 10 * DAY], Accepting(log)
    log.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    table = make_table(log.kafka, tmp_path, log.name, now=lambda: clock[0])
    await table.open(0)
    began = clock[0]
    writer.before = lambda: clock.__setitem__(0, began + DAY)
    await checkpoint(table, writer, log.name, {0: [(b"a", b"2")]}, {0: 1}, lambda: clock[0])
    kept = table._store.copy(0)
    assert kept is not None
    assert kept.current == began
    table.close(0)
