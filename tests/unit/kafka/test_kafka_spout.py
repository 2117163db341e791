"""The spout's emits, stored offsets and metrics without faults."""

import asyncio
import copy
import logging
from typing import TYPE_CHECKING, Any

import pytest

from kstorm.errors import KstormError
from kstorm.kafka import KafkaHosts, KafkaMessageId, KafkaSpout, SpoutConfig
from kstorm.kafka.ports import Ownership, Partition
from kstorm.topology import (
    Config,
    Fields,
    Note,
    OutputFieldsDeclarer,
    TopologyBuilder,
    TopologyContext,
)
from tests.unit.kafka.partition_zero import ZERO, stored

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def test_it_declares_the_schemes_fields() -> None:
    """They belong to the stream that the config names."""
    declarer = OutputFieldsDeclarer("lines")
    KafkaSpout(
        SpoutConfig(KafkaHosts(), "t", "", "s", output_stream_id="raw")
    ).declare_output_fields(declarer)
    assert declarer.streams["raw"].fields == Fields("bytes")


def test_a_task_runs_a_copy() -> None:
    """Every task deep-copies the template in the topology."""
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), "t", "", "s"))
    assert copy.deepcopy(spout).spout_config.topic == "t"


def test_missing_clients_are_reported(world: "World") -> None:
    """The error is not a plain KeyError."""
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), "t", "", "s"))
    builder = TopologyBuilder("words")
    builder.set_spout("lines", spout)
    with pytest.raises(
        KstormError, match="'lines' reads or writes Kafka, but was given no Kafka clients"
    ):
        spout.open(Config(), TopologyContext(builder.build(), "lines", 0), world.collector)


def test_existing_messages_are_emitted(world: "World") -> None:
    """They start at the oldest message, with partition and offset as the message id."""
    world.source.produce(0, 0, 1, 2)
    ids = world.run_ids(world.open())
    assert sorted(ids) == [0, 1, 2]
    assert ids[1] == KafkaMessageId(ZERO, 1, epoch=1, attempt=1)


def test_partitions_take_turns(world: "World") -> None:
    """A busy partition does not delay the others."""
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


def test_emits_are_limited_by_the_collectors_capacity(world: "World") -> None:
    """`capacity` is checked for every message, because one call emits many."""
    world.source.produce(0, *range(100))
    world.collector.capacity = 7
    spout = world.open()
    assert len(world.run(spout)) == 7
    world.collector.capacity = 5
    assert world.run(spout) == [7, 8, 9, 10, 11]


def test_one_call_is_bounded(world: "World") -> None:
    """A large backlog is emitted in batches, so that the spout processes acks in between."""
    world.source.produce(0, *range(2000))
    spout = world.open()
    world.run(spout, 3)
    assert len(world.run(spout, 1)) == 500


def test_offsets_are_stored_at_intervals_when_they_changed(world: "World") -> None:
    """No ack stores one directly. The node has every field of Storm's JSON."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = world.run_ids(spout)
    spout.ack(ids[0])
    spout.next_tuple()
    assert world.offsets.offset() == 0
    world.commit(spout)
    assert world.offsets.stored[ZERO] == stored(1)
    assert world.source.committed[ZERO] == 1
    del world.offsets.stored[ZERO]
    world.commit(spout)
    assert world.offsets.offset() is None


@pytest.mark.parametrize(("interval", "stored_at"), [(2000, 2.0), (500, 0.5), (30_000, 30.0)])
def test_the_interval_is_a_setting(world: "World", interval: int, stored_at: float) -> None:
    """`state_update_interval_ms` is the minimum between two writes."""
    world.source.produce(0, 0)
    spout = world.open(state_update_interval_ms=interval)
    begun = world.now
    spout.ack(world.run_ids(spout)[0])
    world.now = begun + stored_at - 0.01
    spout.next_tuple()
    assert world.offsets.offset() == 0
    world.now = begun + stored_at
    spout.next_tuple()
    assert world.offsets.offset() == 1


def test_a_failed_message_is_emitted_again(world: "World") -> None:
    """The spout emits it from memory, with the next attempt's id. The offset waits for it."""
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


def test_it_is_quiet_when_every_message_is_finished(world: "World") -> None:
    """Until then it may have to emit without a new message."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    assert not spout.is_quiet
    ids = world.run_ids(spout)
    assert not spout.is_quiet
    spout.ack(ids[0])
    spout.fail(ids[1])
    assert not spout.is_quiet
    spout.ack(world.run_ids(spout)[1])
    assert spout.is_quiet
    world.source.produce(2)
    world.now += 60
    spout.next_tuple()
    assert not spout.is_quiet
    world.run(spout)
    assert spout.is_quiet


def test_it_is_not_quiet_without_a_lock(world: "World") -> None:
    world.source.produce(0, 0)
    spout = world.open()
    spout.ack(world.run_ids(spout)[0])
    assert spout.is_quiet
    world.offsets.standing[ZERO] = Ownership.WAITING
    world.run(spout)
    assert not spout.is_quiet


def test_a_message_that_always_fails_backs_off_and_is_shown(world: "World") -> None:
    """By default it is retried 10 times in the first minute, and then once a minute.

    The metrics show its last error until it is acked.
    """
    world.source.produce(0, 0, 1)
    spout = world.open(
        retry_initial_delay_ms=SpoutConfig(KafkaHosts(), "t", id="s").retry_initial_delay_ms
    )
    world.collector.why_failed = Note(7, "ValueError", "no", "sessions.py:14")
    ids = world.run_ids(spout)
    spout.ack(ids[1])
    emitted, began = [], world.now
    while world.now < began + 600:
        for id in list(ids.values()):
            if id.offset == 0:
                emitted.append(world.now - began)
                spout.fail(id)
        world.now += 0.05
        ids = world.run_ids(spout)
    assert sum(time < 60 for time in emitted) == 10
    assert len(emitted) <= 21
    (failure,) = spout.partitions.failing()
    assert (failure.partition, failure.offset, failure.attempts) == (0, 0, len(emitted))
    assert (failure.error, failure.where, failure.timed_out) == (
        "ValueError",
        "sessions.py:14",
        False,
    )
    assert spout.metrics()["most_attempts"] == len(emitted)
    while not (ids := world.run_ids(spout)):
        world.now += 5
    spout.ack(ids[0])
    assert spout.partitions.failing() == []
    assert spout.metrics()["most_attempts"] == 0


def test_a_partition_at_its_limit_is_paused(
    world: "World", caplog: pytest.LogCaptureFixture
) -> None:
    """It buffers no more messages while others continue, logs it once, and resumes with free room."""
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
        "sentences[0] emits nothing new: max_uncommitted_offsets=10 is reached, because offset 0 has been unfinished for 2 s"
    ]
    for _ in range(200):
        for _, id in world.collector.take():
            spout.ack(id)
        spout.next_tuple()
    assert world.source.paused == set()
    world.commit(spout)
    assert world.offsets.offset() == 1200


def test_new_partitions_are_found_and_old_ones_kept(world: "World") -> None:
    """A refresh does not restart or repeat a partition."""
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


def test_deactivating_stores_the_offsets(world: "World") -> None:
    """An inactive spout gets no calls that could store the offsets at the interval."""
    world.source.produce(0, 0)
    spout = world.open()
    spout.ack(world.run_ids(spout)[0])
    spout.deactivate()
    assert world.offsets.offset() == 1


def test_trees_completed_after_deactivation_are_stored(world: "World") -> None:
    """`next_tuple` is not called, so `ack` stores them, at the last tree or at the usual interval."""
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
    """After another activation, `ack` writes nothing."""
    world.source.produce(0, 0)
    spout = world.open()
    spout.deactivate()
    spout.activate()
    spout.ack(world.run_ids(spout)[0])
    assert world.offsets.offset() == 0


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
    """The bucket is `metrics_time_bucket_size_in_secs`. The test lasts two minutes."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open(metrics_time_bucket_size_in_secs=bucket)
    with caplog.at_level(logging.INFO, "kstorm.kafka"):
        for _ in range(60):
            world.commit(spout)
    found = [record.getMessage() for record in caplog.records if "lag 3" in record.getMessage()]
    assert len(found) == lines
    assert all(
        line.startswith("the spout of /kafka-spouts/words: partitions 1, lag 3, pending 3")
        for line in found
    )


def test_metrics_contain_the_lag(world: "World") -> None:
    """The lag counts from the lowest unfinished message."""
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
        "most_attempts": 1,
    }


def test_age_of_the_oldest_unfinished_message(world: "World") -> None:
    """The age is that of the message's own time, which a restart does not change.

    An unread message counts from its discovery.
    """
    place = world.source.at(0)
    world.source.produce(0, *range(3), timestamp=1_000_000)
    world.source.produce(0, 3, timestamp=1_050_000)
    spout = world.open()
    ids: dict[int, Any] = world.run_ids(spout)
    for offset in (0, 2):
        spout.ack(ids[offset])
    assert spout.partitions.oldest_unfinished_seconds(1_060_000) == {place: 60.0}
    spout.ack(ids[1])
    assert spout.partitions.oldest_unfinished_seconds(1_060_000) == {place: 10.0}
    spout.ack(ids[3])
    assert spout.partitions.oldest_unfinished_seconds(1_060_000) == {place: 0.0}
    world.source._ends[place] = 9
    assert spout.partitions.oldest_unfinished_seconds(1_070_000) == {place: 0.0}
    assert spout.partitions.oldest_unfinished_seconds(1_075_000) == {place: 5.0}


def test_the_end_of_a_topic_of_transactions_is_reached(world: "World") -> None:
    """Transaction markers and aborted records after the last message do not count as lag or age.

    The stored offset moves past them.
    """
    place = world.source.at(0)
    world.source.produce(0, 0, 1)
    world.source.unseen[place] = 1003
    spout = world.open()
    ids = world.run_ids(spout)
    assert spout.metrics()["lag"] == 1003
    spout.ack(ids[1])
    spout.next_tuple()
    assert spout.metrics()["lag"] == 1003
    spout.ack(ids[0])
    assert spout.metrics()["lag"] == 0
    assert spout.partitions.oldest_unfinished_seconds(5_000_000) == {place: 0.0}
    world.commit(spout)
    assert world.offsets.offset() == 1003
    assert world.source.committed[place] == 1003
    world.source.produce(0, 1003)
    assert list(world.run_ids(spout)) == [1003]
    assert spout.metrics()["lag"] == 1


def test_a_topic_of_nothing_but_aborted_records_is_finished(world: "World") -> None:
    """This holds from its start, and again after a restart."""
    place = world.source.at(0)
    world.source.logs[place] = []
    world.source.unseen[place] = 1002
    spout = world.open()
    world.run_ids(spout)
    assert (spout.metrics()["lag"], spout.metrics()["pending"]) == (0, 0)
    assert spout.partitions.oldest_unfinished_seconds(5_000_000) == {place: 0.0}
    world.commit(spout)
    assert world.offsets.offset() == 1002
