"""The spout: which partitions it reads, from where, what it stores, and what it does when things go wrong."""

import asyncio
import copy
import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kstorm.errors import BrokerError, ConfigError, KstormError, NotYetError
from kstorm.kafka import (
    EARLIEST_TIME,
    LATEST_TIME,
    KafkaHosts,
    KafkaMessageId,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StoredOffset,
)
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.ports import Broker, Ownership, Partition, SourceFault
from kstorm.topology import Config, Fields, OutputFieldsDeclarer, TopologyBuilder, TopologyContext

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World

ZERO = Partition("sentences", 0)


def stored(offset: int, topology_id: str = "words-1") -> StoredOffset:
    """What an earlier process left of partition 0."""
    return StoredOffset.of(TopologyRef(topology_id, "words"), ZERO, offset, Broker("broker", 9092))


def test_it_declares_the_schemes_fields() -> None:
    """On the stream that the config names."""
    declarer = OutputFieldsDeclarer("lines")
    KafkaSpout(SpoutConfig(KafkaHosts(), "t", "", "s", output_stream_id="raw")).declare_output_fields(declarer)
    assert declarer.streams["raw"].fields == Fields("bytes")


def test_a_task_runs_a_copy() -> None:
    """The template in the topology can be deep-copied, as every task does."""
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), "t", "", "s"))
    assert copy.deepcopy(spout).spout_config.topic == "t"


def test_without_clients_it_says_what_is_missing(world: "World") -> None:
    """A component that was lent no clients raises a clear error, not a KeyError."""
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), "t", "", "s"))
    builder = TopologyBuilder("words")
    builder.set_spout("lines", spout)
    with pytest.raises(KstormError, match="'lines' reads or writes Kafka, but was given no Kafka clients"):
        spout.open(Config(), TopologyContext(builder.build(), "lines", 0), world.collector)


def test_it_emits_what_is_there(world: "World") -> None:
    """From the oldest message on, with partition and offset as the message id."""
    world.source.produce(0, 0, 1, 2)
    ids = world.run_ids(world.open())
    assert sorted(ids) == [0, 1, 2]
    assert ids[1] == KafkaMessageId(ZERO, 1, epoch=1, attempt=1)


def test_partitions_take_turns(world: "World") -> None:
    """One partition's flood does not keep the others from being emitted."""
    for partition in range(3):
        world.source.produce(partition, *range(400))
    spout = world.open()
    for _ in range(5):
        spout.next_tuple()
    assert {id.partition.partition for _, id, _ in world.collector.emitted} == {0, 1, 2}


def test_each_task_reads_its_own(world: "World") -> None:
    """Task 1 of 2 reads the partitions 1 and 3."""
    for partition in range(4):
        world.source.produce(partition, 0)
    world.run(world.open(tasks=2, index=1))
    assert sorted(partition.partition for partition in world.source.positions) == [1, 3]


def test_it_emits_no_more_than_the_collector_has_room_for(world: "World") -> None:
    """`capacity` is checked for every message, since one call emits many."""
    world.source.produce(0, *range(100))
    world.collector.capacity = 7
    spout = world.open()
    assert len(world.run(spout)) == 7
    world.collector.capacity = 5
    assert world.run(spout) == [7, 8, 9, 10, 11]


def test_one_call_is_bounded(world: "World") -> None:
    """A huge backlog is emitted in batches, so that acks are heard in between."""
    world.source.produce(0, *range(2000))
    spout = world.open()
    world.run(spout, 3)
    assert len(world.run(spout, 1)) == 500


def test_nothing_starts_before_the_lock_is_held(world: "World") -> None:
    """While another process holds the partition, it is neither read nor emitted."""
    world.source.produce(0, 0)
    world.offsets.standing[ZERO] = Ownership.WAITING
    spout = world.open()
    assert world.run(spout) == []
    assert not world.source.positions
    world.offsets.standing[ZERO] = Ownership.HELD
    assert world.run(spout) == [0]


def test_it_resumes_where_the_last_one_stopped(world: "World") -> None:
    """The stored offset is the first one that is not done."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3)
    assert world.run(world.open(start_offset_time=LATEST_TIME)) == [3, 4]


@pytest.mark.parametrize(("time", "first"), [(EARLIEST_TIME, 0), (LATEST_TIME, 5), (1_700_000_000_000, 2)])
def test_without_a_stored_offset_it_starts_at_the_configured_time(world: "World", time: int, first: int) -> None:
    """The oldest message, the newest, or a Unix time in ms."""
    world.source.produce(0, *range(5))
    world.source.times[1_700_000_000_000] = 2
    spout = world.open(start_offset_time=time)
    world.run(spout)
    assert world.source.positions[ZERO] == 5
    world.source.produce(0, 5)
    world.commit(spout)
    assert world.offsets.offset() == first


def test_where_latest_began_is_stored_at_once(world: "World") -> None:
    """A crash before the first ack must not skip what was written since the start."""
    world.source.produce(0, *range(5))
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout)
    world.commit(spout)
    assert world.offsets.offset() == 5


def test_ignored_offsets_are_those_of_another_deployment(world: "World") -> None:
    """`ignore_zk_offsets` starts a new deployment over, and lets a restarted process of this one resume."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3, "words-0")
    assert world.run(world.open(ignore_zk_offsets=True)) == [0, 1, 2, 3, 4]
    world.offsets.stored[ZERO] = stored(3, "words-1")
    assert world.run(world.open(ignore_zk_offsets=True)) == [3, 4]


def test_a_deployment_that_starts_over_is_known_again_at_once(world: "World") -> None:
    """Even where it starts at the very offset that is stored: else a crash before the first ack would start it over at a
    later end, and what was written in between would be lost."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(5, "words-0")
    spout = world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)
    world.run(spout)
    world.commit(spout)
    assert world.offsets.stored[ZERO] == stored(5, "words-1")
    world.source.produce(0, 5, 6)
    assert world.run(world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)) == [5, 6]


def test_ignoring_offsets_needs_an_id_of_the_deployment(world: "World") -> None:
    """Without one, a restart would begin at the start again and again."""
    world.topology_id = None
    with pytest.raises(ConfigError, match=r"'lines' has ignore_zk_offsets set.*set KSTORM_TOPOLOGY_ID"):
        world.open(ignore_zk_offsets=True)


@pytest.mark.parametrize(("behind", "first"), [(3, 3), (1, 5)])
def test_an_offset_too_far_behind_is_given_up(world: "World", behind: int, first: int) -> None:
    """`max_offset_behind` compares with where `start_offset_time` would start."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3)
    spout = world.open(start_offset_time=LATEST_TIME, max_offset_behind=behind)
    world.run(spout)
    world.source.produce(0, 5)
    world.commit(spout)
    assert world.offsets.offset() == first


def test_offsets_are_stored_at_intervals_when_they_changed(world: "World") -> None:
    """Not at every ack, and with everything the seed's JSON says."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = world.run_ids(spout)
    spout.ack(ids[0])
    spout.next_tuple()
    assert world.offsets.offset() is None
    world.commit(spout)
    assert world.offsets.stored[ZERO] == StoredOffset.of(
        TopologyRef("words-1", "words"), ZERO, 1, Broker("broker", 9092)
    )
    assert world.source.committed[ZERO] == 1
    del world.offsets.stored[ZERO]
    world.commit(spout)
    assert world.offsets.offset() is None


def test_a_failed_message_is_emitted_again(world: "World") -> None:
    """From memory, with the next attempt's id; the offset waits for it."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = world.run_ids(spout)
    spout.ack(ids[1])
    spout.fail(ids[0])
    again = world.run_ids(spout)
    assert [id.attempt for id in again.values()] == [2]
    world.commit(spout)
    assert world.offsets.offset() == 0
    spout.ack(again[0])
    world.commit(spout)
    assert world.offsets.offset() == 2


def test_a_partition_at_its_limit_is_paused(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    """It gathers no more messages while others go on, says so once, and is resumed when there is room again."""
    world.source.produce(0, *range(1200))
    world.source.produce(1, *range(5))
    spout = world.open(max_uncommitted_offsets=10)
    for _ in range(8):
        spout.next_tuple()
    assert world.source.paused == {ZERO}
    assert world.source.positions[ZERO] == 500
    assert world.source.positions[Partition("sentences", 1)] == 5
    assert spout.metrics()["throttled"] == 1
    with caplog.at_level(logging.WARNING):
        world.commit(spout)
        world.commit(spout)
    assert [record.getMessage() for record in caplog.records] == [
        "sentences[0] emits nothing new: max_uncommitted_offsets=10 is reached, as offset 0 has not been finished for 2 s"
    ]
    for _ in range(200):
        for _, id in world.collector.take():
            spout.ack(id)
        spout.next_tuple()
    assert world.source.paused == set()
    world.commit(spout)
    assert world.offsets.offset() == 1200


def test_new_partitions_are_found_and_old_ones_kept(world: "World") -> None:
    """A refresh neither restarts nor re-reads what is being read."""
    world.source.produce(0, 0)
    spout = world.open(hosts=KafkaHosts(refresh_freq_secs=30))
    ids = world.run_ids(spout)
    world.source.produce(1, 0, 1)
    assert world.run(spout) == []
    world.now += 30
    assert world.run(spout) == [0, 1]
    spout.ack(ids[0])
    world.commit(spout)
    assert world.offsets.offset(0) == 1
    assert world.source.refreshes == 2


def test_a_partition_that_was_taken_over_is_dropped(world: "World") -> None:
    """A fenced task emits no more of it, ignores what was in flight, and starts from what the other has stored."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = world.run_ids(spout)
    world.offsets.standing[ZERO] = Ownership.FENCED
    world.commit(spout)
    assert world.offsets.stored == {}
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


def test_an_offset_that_expired_is_skipped(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    """The broker no longer has 3 to 9: reading goes on at 10, what was in flight is still waited for."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = world.run_ids(spout)
    world.source.logs[ZERO].clear()
    world.source.starts[ZERO] = 10
    world.source.produce(0, 10, 11)
    with caplog.at_level(logging.WARNING):
        later = world.run_ids(spout)
    assert sorted(later) == [10, 11]
    assert "goes on at offset 10: the broker no longer has 3" in caplog.text
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


def test_a_topic_made_anew_is_read_from_its_start(world: "World") -> None:
    """The log ends before the stored offset: it starts over, and late acks of the old log's messages count nothing."""
    world.source.produce(0, *range(100))
    world.offsets.stored[ZERO] = stored(95)
    spout = world.open()
    old = world.run_ids(spout)
    world.source.logs[ZERO].clear()
    world.source.produce(0, 0, 1)
    new = world.run_ids(spout)
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


def test_a_stored_offset_that_is_none_is_reported(world: "World") -> None:
    """The other partitions go on, and this one is tried again at the next refresh."""
    world.source.produce(0, 0)
    world.offsets.unreadable = ConfigError("no stored offset")
    spout = world.open()
    assert world.run(spout) == []
    assert len(world.collector.errors) == 1
    world.offsets.unreadable = None
    world.now += 60
    assert world.run(spout) == [0]


def test_a_fault_is_reported_and_asks_for_new_metadata(world: "World") -> None:
    """As in the seed, a failed fetch refreshes the partitions, within a second."""
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
    assert world.offsets.stored[ZERO] == StoredOffset.of(
        TopologyRef("words-1", "words"), ZERO, 1, Broker("another", 9093)
    )
    world.source.produce(0, 2)
    assert world.run(spout) == [2]
    spout.ack(ids[1])
    world.commit(spout)
    assert world.offsets.offset() == 2


def test_a_topic_that_does_not_exist_yet_is_looked_for(world: "World") -> None:
    """Every 2 seconds, not only at the usual refresh."""
    spout = world.open()
    assert world.run(spout) == []
    world.source.produce(0, 0)
    world.now += 2
    assert world.run(spout) == [0]


def test_zookeeper_out_of_reach_is_told_once(world: "World") -> None:
    """Processing goes on; the error is reported when it begins, and `problem` tells a readiness check."""
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


def test_deactivating_stores_the_offsets(world: "World") -> None:
    """While it is not asked for tuples, the interval does not pass."""
    world.source.produce(0, 0)
    spout = world.open()
    spout.ack(world.run_ids(spout)[0])
    spout.deactivate()
    assert world.offsets.offset() == 1


def test_what_ends_after_deactivation_is_stored_too(world: "World") -> None:
    """By `ack`, since `next_tuple` is not called: at the last tree, and else at the usual interval."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = world.run_ids(spout)
    spout.deactivate()
    spout.ack(ids[0])
    assert world.offsets.offset() == 0
    world.now += 3
    spout.ack(ids[1])
    assert world.offsets.offset() == 2
    spout.ack(ids[2])
    assert world.offsets.offset() == 3


def test_an_active_spout_stores_at_its_interval_alone(world: "World") -> None:
    """Activated again, `ack` costs no write."""
    world.source.produce(0, 0)
    spout = world.open()
    spout.deactivate()
    spout.activate()
    spout.ack(world.run_ids(spout)[0])
    assert world.offsets.offset() is None


def test_closing_stores_releases_and_shuts(world: "World") -> None:
    """The next owner finds the last offset and a free lock."""
    world.source.produce(0, 0)
    spout = world.open()
    spout.ack(world.run_ids(spout)[0])
    asyncio.run(spout.close())
    assert world.offsets.offset() == 1
    assert world.offsets.released == [ZERO]
    assert (world.offsets.flushed, world.offsets.closed, world.source.closed) == (True, True, True)


@pytest.mark.parametrize(("bucket", "lines"), [(60, 2), (10, 12), (0, 0)])
def test_its_metrics_are_logged_once_a_bucket(
    world: "World", caplog: pytest.LogCaptureFixture, bucket: int, lines: int
) -> None:
    """Of `metrics_time_bucket_size_in_secs`; in two minutes here."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open(metrics_time_bucket_size_in_secs=bucket)
    with caplog.at_level(logging.INFO, "kstorm.kafka.spout"):
        for _ in range(60):
            world.commit(spout)
    found = [record.getMessage() for record in caplog.records if "lag 3" in record.getMessage()]
    assert len(found) == lines
    assert all(line.startswith("the spout of /kafka-spouts/words: partitions 1, lag 3, pending 3") for line in found)


def test_its_metrics_say_how_far_it_is_behind(world: "World") -> None:
    """Lag is counted from the lowest unfinished message."""
    world.source.produce(0, *range(10))
    spout = world.open(retry_initial_delay_ms=5000)
    ids: dict[int, Any] = world.run_ids(spout)
    for offset in (0, 1, 5):
        spout.ack(ids[offset])
    spout.fail(ids[2])
    world.now += 3
    assert spout.metrics() == {
        "partitions": 1,
        "lag": 8,
        "pending": 7,
        "retries": 1,
        "throttled": 0,
        "oldest_pending_seconds": 3.0,
    }


def test_a_scheme_that_waits_is_told_of_and_opened_and_closed(world: "World") -> None:
    """Like ZooKeeper out of reach: told once, shown by the readiness check, and processing goes on when it is over."""

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
