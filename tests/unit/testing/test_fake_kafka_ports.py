"""`FakeKafka` is asynchronous like the real servers: no call returns its answer at once."""

import asyncio
from typing import Any

import pytest

from kstorm.errors import BrokerError, FencedError
from kstorm.kafka import (
    EARLIEST_TIME,
    KafkaHosts,
    KafkaPorts,
    KafkaSpout,
    SpoutConfig,
    StoredOffset,
)
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.ports import KAFKA, Broker, OffsetStore, Ownership, Partition
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Bolt, TopologyBuilder, TopologyContext

PLACE = Partition("lines", 0)
CONFIG = SpoutConfig(KafkaHosts(), "lines", "/spouts", "t")


def ports(kafka: FakeKafka) -> KafkaPorts:
    found: KafkaPorts = kafka.resources[KAFKA]
    return found


def store(kafka: FakeKafka, task: int = 0) -> OffsetStore:
    builder = TopologyBuilder("t")
    builder.set_spout("lines", KafkaSpout(CONFIG), 2)
    builder.set_bolt("bolt", Bolt()).shuffle_grouping("lines")
    return ports(kafka).open_offsets(CONFIG, TopologyContext(builder.build(), "lines", task))


def offset(value: int) -> StoredOffset:
    return StoredOffset.of(TopologyRef("t-1", "t"), PLACE, value, Broker("b", 1))


@pytest.fixture
def kafka() -> FakeKafka:
    kafka = FakeKafka({"lines": 2, "out": 1})
    for number in range(4):
        kafka.produce("lines", str(number))
    return kafka


# The reader.


def test_look_ups_are_answered_later(kafka: FakeKafka) -> None:
    """The partitions are the same object until the next look-up ends.

    Each offset look-up asks again.
    """
    reader = ports(kafka).open_source(CONFIG)
    reader.refresh("lines")
    assert reader.partitions("lines") is None
    assert kafka.act()
    known = reader.partitions("lines")
    assert known is not None
    assert list(known) == [PLACE, Partition("lines", 1)]
    reader.refresh("lines")
    reader.refresh("lines")
    assert reader.partitions("lines") is known
    assert kafka.act()
    assert not kafka.act()
    assert reader.partitions("lines") is not known
    for _ in range(2):
        assert reader.offset_for(PLACE, EARLIEST_TIME) is None
        assert reader.offset_for(PLACE, EARLIEST_TIME) is None
        assert kafka.settle()
        assert reader.offset_for(PLACE, EARLIEST_TIME) == 0
    assert reader.offset_for(PLACE, EARLIEST_TIME) is None
    reader.unassign(PLACE)
    assert kafka.settle()
    assert reader.offset_for(PLACE, EARLIEST_TIME) is None  # the pending look-up was dropped


def test_a_pause_ends_with_the_assignment(kafka: FakeKafka) -> None:
    """The real reader keeps the same contract."""
    reader = ports(kafka).open_source(CONFIG)
    reader.assign(PLACE, 0)
    assert [record.offset() for record in reader.read(10)] == [0, 1]
    for let_go_first in (True, False):
        reader.pause(PLACE)
        assert list(reader.read(10)) == []
        if let_go_first:
            reader.unassign(PLACE)
        reader.assign(PLACE, 0)
        assert [record.offset() for record in reader.read(10)] == [0, 1]


def test_reading_takes_turns(kafka: FakeKafka) -> None:
    """Each read has at most the requested size, and each partition is in order.

    The end offset is known after the first read.
    """
    reader = ports(kafka).open_source(CONFIG)
    other = Partition("lines", 1)
    reader.assign(PLACE, 0)
    reader.assign(other, 0)
    assert reader.end_offset(PLACE) is None
    read = [(record.partition(), record.offset()) for _ in range(4) for record in reader.read(1)]
    assert read == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert reader.end_offset(PLACE) == 2
    kafka.produce("lines", "x", partition=0)
    assert reader.end_offset(PLACE) == 2
    reader.close()
    assert list(reader.read(5)) == []


@pytest.mark.parametrize("position", [0, 9])
def test_offset_outside_the_log_is_reported_once(kafka: FakeKafka, position: int) -> None:
    """An offset before the start or after the end is reported once.

    The partition is not read until its next assignment.
    """
    kafka.expire("lines", before=1)
    reader = ports(kafka).open_source(CONFIG)
    reader.assign(PLACE, position)
    for _ in range(2):
        assert list(reader.read(5)) == []
    (fault,) = reader.faults()
    assert (fault.partition, fault.out_of_range) == (PLACE, True)
    reader.assign(PLACE, 1)
    assert [record.offset() for record in reader.read(5)] == [1]
    assert list(reader.faults()) == []


def test_undecodable_batch_is_reported_once(kafka: FakeKafka) -> None:
    """The fault comes later, once, and with the batch's end. Later records are not read.

    The real reader keeps the same contract, `tests.source_contract`.
    """
    kafka.produce_undecodable("lines", 3)
    kafka.produce("lines", "x", partition=0)
    reader = ports(kafka).open_source(CONFIG)
    reader.assign(PLACE, 0)
    assert [record.offset() for record in reader.read(5)] == [0, 1]
    for _ in range(2):
        assert list(reader.read(5)) == []
        assert list(reader.faults()) == []
    assert kafka.settle()
    reader.assign(PLACE, 3)
    assert list(reader.faults()) == []
    assert list(reader.read(5)) == []
    assert kafka.settle()
    (fault,) = reader.faults()
    assert (fault.partition, fault.undecodable) == (PLACE, (2, 5))
    reader.assign(PLACE, 5)
    assert [record.offset() for record in reader.read(5)] == [5]
    assert not kafka.settle()


def test_deleted_topic_is_reported_once(kafka: FakeKafka) -> None:
    """One report covers reads and look-ups."""
    reader = ports(kafka).open_source(CONFIG)
    reader.assign(PLACE, 0)
    kafka.delete_topic("lines")
    for _ in range(3):
        assert list(reader.read(5)) == []
        reader.offset_for(PLACE, EARLIEST_TIME)
        kafka.settle()
    assert [fault.reason for fault in reader.faults()] == ["the fake Kafka has no lines[0]"]


# Offsets.


def test_offset_changes_when_it_is_stored(kafka: FakeKafka) -> None:
    """It does not change with the call. The last of several pending offsets is stored."""
    offsets = store(kafka)
    assert [offsets.acquire(PLACE), offsets.acquire(PLACE)] == [Ownership.WAITING] * 2
    kafka.settle()
    assert offsets.acquire(PLACE) is Ownership.HELD
    assert offsets.load(PLACE) is None
    for value in (1, 2):
        offsets.save(PLACE, offset(value))
    assert (kafka.stored_offset(CONFIG), offsets.stored_offset(PLACE)) == (None, None)
    assert kafka.act()
    assert (kafka.stored_offset(CONFIG), offsets.stored_offset(PLACE)) == (2, 2)
    assert not kafka.act()
    offsets.save(PLACE, offset(3))
    kafka.away = True
    assert not kafka.settle()
    assert not offsets.flush(60)
    assert "cannot be reached" in str(offsets.problem())
    kafka.away = False
    assert (offsets.flush(60), offsets.problem(), kafka.stored_offset(CONFIG)) == (True, None, 3)


def test_a_lock_has_one_holder(kafka: FakeKafka) -> None:
    """The next holder gets it after the release and after the first holder's writes."""
    first, second = store(kafka, 0), store(kafka, 1)
    first.acquire(PLACE)
    second.acquire(PLACE)
    kafka.settle()
    assert (first.acquire(PLACE), second.acquire(PLACE)) == (Ownership.HELD, Ownership.WAITING)
    first.save(PLACE, offset(7))
    first.release(PLACE)
    assert second.acquire(PLACE) is Ownership.WAITING
    kafka.settle()
    assert second.acquire(PLACE) is Ownership.HELD
    loaded = second.load(PLACE)
    assert loaded is not None
    assert loaded.offset == 7
    with pytest.raises(FencedError, match="/spouts/t/partition_0 belongs to another process now"):
        first.save(PLACE, offset(8))
    assert first.acquire(PLACE) is Ownership.WAITING
    second.close()
    kafka.settle()
    assert first.acquire(PLACE) is Ownership.HELD


def test_restart_loses_pending_offsets(kafka: FakeKafka) -> None:
    """The restarted task takes the lock. A zombie gets `FENCED`."""
    old = store(kafka)
    old.acquire(PLACE)
    kafka.settle()
    old.save(PLACE, offset(1))
    new = store(kafka)
    assert new.acquire(PLACE) is Ownership.WAITING
    kafka.settle()
    assert new.acquire(PLACE) is Ownership.HELD
    assert (new.load(PLACE), kafka.stored_offset(CONFIG)) == (None, None)
    assert old.acquire(PLACE) is Ownership.FENCED
    with pytest.raises(FencedError):
        old.save(PLACE, offset(2))
    old.release(PLACE)
    assert old.acquire(PLACE) is Ownership.WAITING
    kafka.settle()
    assert old.acquire(PLACE) is Ownership.WAITING
    assert new.acquire(PLACE) is Ownership.HELD


def test_lock_ends_with_its_session(kafka: FakeKafka) -> None:
    """The lock does not stay with an exited process."""
    old = store(kafka)
    old.acquire(PLACE)
    kafka.settle()
    kafka.away = True
    old.close()
    new = store(kafka)
    kafka.away = False
    new.acquire(PLACE)
    kafka.settle()
    assert new.acquire(PLACE) is Ownership.HELD


# The writer.


def test_delivery_report_is_asynchronous(kafka: FakeKafka) -> None:
    """The report never comes within `write`. It follows the delivery, which others may see earlier."""
    reports: list[Any] = []
    writer = ports(kafka).open_shared_writer()
    writer.write("out", b"k", b"v", lambda error, record: reports.append(error), [("h", "x")])
    assert (reports, kafka.records("out")) == ([], [])
    assert kafka.act()
    (record,) = kafka.records("out")
    assert (record.key(), record.value(), record.headers()) == (b"k", b"v", [("h", b"x")])
    assert reports == []
    assert kafka.act()
    assert reports == [None]
    with pytest.raises(BrokerError, match="1,000,001 bytes is too large for topic 'out'"):
        writer.write("out", None, b"v" * 1_000_001, lambda error, record: reports.append(error))
    assert not kafka.act()


def test_a_batch_is_reported_once(kafka: FakeKafka) -> None:
    """The report includes the errors of the refused records."""
    reports: list[Any] = []
    writer = ports(kafka).open_writer({})
    kafka.refuse = lambda topic, key, value: "no" if value == b"b" else None
    writer.write_batch("out", [None] * 3, ["a", "b", "c" * 1_000_001], reports.append)
    writer.write_batch("out", ["k"], ["d"], reports.append, [[("h", None)]])
    for _ in range(4):
        assert kafka.act()
    assert reports == []
    assert kafka.settle()
    assert reports == [["no", "it is too large"], []]
    assert [record.value() for record in kafka.records("out")] == [b"a", b"d"]


def test_callback_runs_on_the_event_loop(kafka: FakeKafka) -> None:
    """The callback runs on the event loop, also during an outage, so no record waits forever."""

    async def write() -> object | None:
        reported: asyncio.Future[object | None] = asyncio.get_running_loop().create_future()
        ports(kafka).open_shared_writer().write(
            "out", None, b"v", lambda error, record: reported.set_result(error)
        )
        assert not reported.done()
        return await reported

    assert asyncio.run(write()) is None
    kafka.away = True
    assert asyncio.run(write()) == "the fake Kafka cannot be reached"
    assert len(kafka.records("out")) == 1
