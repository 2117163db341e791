"""What a spout does when the log, the lock, ZooKeeper or its scheme changes or fails."""

import asyncio
import logging
from typing import TYPE_CHECKING, ClassVar

import pytest

from kstorm.errors import BrokerError, NotYetError
from kstorm.kafka import KafkaHosts, SchemeAsMultiScheme
from kstorm.kafka.ports import Broker, Ownership, SourceFault
from kstorm.topology import Fields
from tests.unit.kafka.partition_zero import ZERO, stored

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def test_fenced_partition_is_dropped(world: "World") -> None:
    """A fenced task emits no more of it, ignores what was in flight, and starts from what the other has stored."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = world.run_ids(spout)
    world.offsets.standing[ZERO] = Ownership.FENCED
    world.commit(spout)
    assert world.offsets.offset() == 0
    assert world.offsets.released == [ZERO]
    world.offsets.stored[ZERO] = stored(2)
    again = world.run_ids(spout)
    assert list(again) == [2]
    for id in ids.values():
        spout.ack(id)
    world.commit(spout)
    assert world.offsets.offset() == 2
    spout.ack(again[2])
    world.commit(spout)
    assert world.offsets.offset() == 3


def test_while_the_lock_is_in_doubt_nothing_is_emitted(world: "World") -> None:
    """After a lost session: what is in flight may complete, new messages wait until the lock is held again."""
    world.source.produce(0, 0)
    spout = world.open()
    ids = world.run_ids(spout)
    world.offsets.standing[ZERO] = Ownership.WAITING
    world.source.produce(0, 1)
    spout.fail(ids[0])
    assert world.run(spout) == []
    world.offsets.standing[ZERO] = Ownership.HELD
    assert world.run(spout) == [0, 1]


def test_an_offset_that_expired_is_skipped(
    world: "World", caplog: pytest.LogCaptureFixture
) -> None:
    """The broker no longer has 3 to 9: reading continues at 10, and what was in flight is still waited for."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = world.run_ids(spout)
    world.source.logs[ZERO].clear()
    world.source.starts[ZERO] = 10
    world.source.produce(0, 10, 11)
    with caplog.at_level(logging.WARNING):
        later = world.run_ids(spout)
    assert sorted(later) == [10, 11]
    assert "continues at offset 10: the broker no longer has offset 3" in caplog.text
    assert isinstance(world.collector.errors[0], BrokerError)
    spout.ack(later[10])
    spout.ack(ids[1])
    world.commit(spout)
    assert world.offsets.offset() == 0
    spout.fail(ids[0])
    again = world.run_ids(spout)
    spout.ack(again[0])
    spout.ack(ids[2])
    world.commit(spout)
    assert world.offsets.offset() == 11


def test_recreated_topic_is_read_from_its_start(world: "World") -> None:
    """The log ends before the stored offset: it starts over, and late acks of the old log's messages count nothing."""
    world.source.produce(0, *range(100))
    world.offsets.stored[ZERO] = stored(95)
    spout = world.open()
    old = world.run_ids(spout)
    world.source.logs[ZERO].clear()
    world.source.produce(0, 0, 1)
    new = world.run_ids(spout, 10)
    assert sorted(new) == [0, 1]
    for id in old.values():
        spout.ack(id)
    spout.ack(new[0])
    world.commit(spout)
    assert world.offsets.offset() == 1


def test_out_of_range_can_be_an_error_instead(world: "World") -> None:
    """Without `use_start_offset_time_if_offset_out_of_range` the partition waits until the broker has the offset."""
    world.source.produce(0, 0, 1)
    world.offsets.stored[ZERO] = stored(5)
    hosts = KafkaHosts(refresh_freq_secs=30)
    spout = world.open(hosts=hosts, use_start_offset_time_if_offset_out_of_range=False)
    assert world.run(spout, 20) == []
    assert len(world.collector.errors) == 1
    world.source.produce(0, 2, 3, 4, 5)
    world.now += 30
    assert world.run(spout) == [5]


def test_a_fault_is_reported_and_asks_for_new_metadata(world: "World") -> None:
    """As in Storm, a failed fetch refreshes the partitions, within a second."""
    world.source.produce(0, 0)
    spout = world.open()
    world.run(spout)
    refreshes = world.source.refreshes
    world.source.waiting_faults.append(SourceFault("the leader moved", ZERO))
    world.run(spout)
    assert str(world.collector.errors[0]) == "the leader moved"
    world.now += 1
    world.run(spout)
    assert world.source.refreshes == refreshes + 1


def test_why_nothing_is_read(world: "World") -> None:
    """What Kafka last said, for a minute, and until it tells the partitions anew; or that there is no topic."""
    spout = world.open(topic="lines-.*", kafka_topic_wildcard_match=True)
    assert spout.unread == ""
    world.run(spout)
    assert spout.unread == "there is no topic 'lines-.*' to read"
    world.source.waiting_faults.append(SourceFault("no broker is up"))
    world.run(spout)
    assert spout.unread == "no broker is up"
    world.source.produce(0, 0)
    world.now += 2
    world.run(spout)
    assert spout.unread == ""
    world.source.waiting_faults.append(SourceFault("it may not be read", ZERO))
    world.run(spout)
    world.now += 59
    assert spout.unread == "it may not be read"
    world.now += 1
    assert spout.unread == ""


def test_an_offset_that_expired_keeps_nothing_from_being_read(world: "World") -> None:
    """It is skipped at once; unless that is not wanted, and then it is said."""
    world.source.produce(0, 0, 1)
    world.offsets.stored[ZERO] = stored(5)
    spout = world.open()
    world.run(spout)
    assert spout.unread == ""
    waits = world.open(use_start_offset_time_if_offset_out_of_range=False)
    world.offsets.stored[ZERO] = stored(5)
    world.run(waits, 20)
    assert waits.unread == "no such offset"


def test_a_new_leader_changes_nothing_but_its_name(world: "World") -> None:
    """What is read and what is in flight stay; the node tells the new leader with the next offset."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = world.run_ids(spout)
    spout.ack(ids[0])
    world.source.waiting_faults.append(SourceFault("not the leader any more", ZERO))
    world.source.leader = Broker("another", 9093)
    spout.next_tuple()
    world.now += 1
    world.commit(spout)
    assert world.offsets.stored[ZERO] == stored(1, leader=Broker("another", 9093))
    world.source.produce(0, 2)
    assert world.run(spout) == [2]
    spout.ack(ids[1])
    world.commit(spout)
    assert world.offsets.offset() == 2


def test_zookeeper_outage_is_reported_once(world: "World") -> None:
    """Processing continues; the error is reported when it begins, and `problem` shows it to a readiness check."""
    world.source.produce(0, 0)
    spout = world.open()
    world.run(spout)
    world.offsets.trouble = BrokerError("ZooKeeper is away")
    for _ in range(3):
        world.commit(spout)
    assert [str(error) for error in world.collector.errors] == ["ZooKeeper is away"]
    assert spout.problem() is world.offsets.trouble
    world.source.produce(0, 1)
    assert world.run(spout) == [1]


def test_waiting_scheme_is_opened_reported_and_closed(world: "World") -> None:
    """Like ZooKeeper out of reach: reported once, shown by the readiness check, and processing continues when it is over."""

    class Asking:
        output_fields = Fields("str")
        calls: ClassVar[list[str]] = []
        answers = False

        def open(self) -> None:
            self.calls.append("open")

        def close(self) -> None:
            self.calls.append("close")

        def deserialize(self, value: bytes) -> list[str]:
            if not self.answers:
                raise NotYetError("the registry does not answer")
            return [value.decode()]

    scheme = Asking()
    world.source.produce(0, 0, 1)
    spout = world.open(scheme=SchemeAsMultiScheme(scheme))
    assert Asking.calls == ["open"]
    assert world.run(spout) == []
    world.commit(spout)
    world.commit(spout)
    assert [str(error) for error in world.collector.errors] == ["the registry does not answer"]
    assert str(spout.problem()) == "the registry does not answer"
    assert world.offsets.offset() in (None, 0)
    scheme.answers = True
    assert world.run(spout) == [0, 1]
    assert spout.problem() is None
    asyncio.run(spout.close())
    assert Asking.calls == ["open", "close"]


def test_paused_partition_stays_paused_after_a_seek(world: "World") -> None:
    """The reader forgets its pause; the spout must know, or it gathers all that there is while it may emit nothing."""
    world.source.produce(0, *range(5000))
    spout = world.open(max_uncommitted_offsets=10)
    world.run(spout, 8)
    assert world.source.paused == {ZERO}
    world.source.waiting_faults.append(SourceFault("gone", ZERO, out_of_range=True))
    world.source.starts[ZERO] = 600
    world.run(spout, 50)
    manager = spout._coordinator.manager(ZERO)
    assert manager is not None
    assert len(manager.waiting) <= 1000
    assert world.source.paused == {ZERO}
