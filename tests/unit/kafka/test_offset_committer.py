"""The offset is stored only after its range is in Kafka."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kstorm.kafka import LATEST_TIME, KafkaHosts, KafkaSpout, ProcessingGuarantee, SpoutConfig
from kstorm.kafka.finished_ranges import Skipped, decode_range
from kstorm.kafka.offset_committer import default_outcome
from kstorm.kafka.ports import Ownership
from kstorm.topology import BasicBolt, Config, TopologyBuilder
from tests.unit.kafka.partition_zero import ZERO, stored

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def answer(world: "World", error: object | None = None) -> None:
    """Confirms or refuses the first pending record."""
    world.writer.records.pop(0)[3](error, None)


def finish(world: "World", spout: Any, *offsets: int) -> dict[int, Any]:
    ids = world.run_ids(spout)
    for offset in offsets:
        spout.ack(ids[offset])
    return ids


def ranges(world: "World") -> list[tuple[int, int, dict[str, int]]]:
    return [(found.start, found.end, found.n) for found in world.writer.finished]


def test_each_commit_is_one_range(world: "World") -> None:
    """A range starts at the end of the previous one, and names its writer."""
    world.source.produce(0, 0, 1, 2, 5)
    spout = world.open()
    ids = finish(world, spout, 0, 1)
    world.commit(spout)
    spout.ack(ids[2])
    spout.ack(ids[5])
    world.commit(spout)
    world.commit(spout)
    assert ranges(world) == [(0, 2, {"acked": 2}), (2, 6, {"acked": 2, "absent": 2})]
    first, second = world.writer.finished
    assert (first.reading, first.spout, first.task) == ("/kafka-spouts/words", "lines", 1)
    assert (first.topic, first.partition) == ("sentences", 0)
    assert first.session == second.session != world.open()._storing._session
    assert 0 < first.since <= first.at <= second.at
    assert second.since <= first.at, "2 and 5 were emitted before the first was written"


def test_the_offset_waits_for_its_range(world: "World") -> None:
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = finish(world, spout, 0)
    world.writer.holds = True
    world.commit(spout)
    assert world.offsets.offset() == 0
    spout.ack(ids[1])
    world.commit(spout)
    assert len(world.writer.records) == 1, "one at a time"
    answer(world)
    assert world.offsets.offset() == 1
    assert len(world.writer.records) == 1, "what was to be stored meanwhile follows"
    answer(world)
    assert world.offsets.offset() == 2


def test_refused_range_is_in_the_next_one(world: "World") -> None:
    """A readiness check shows why offsets are not stored."""
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = finish(world, spout, 0)
    world.writer.refuses = "not allowed"
    world.commit(spout)
    assert world.offsets.offset() == 0
    assert "topic 'words.__finished' does not accept a record: not allowed" in str(spout.problem())
    world.writer.refuses = ""
    spout.ack(ids[1])
    world.commit(spout)
    assert world.offsets.offset() == 2
    assert ranges(world) == [(0, 2, {"acked": 2})]
    assert spout.problem() is None


def test_leaving_task_keeps_the_lock_until_its_last_range_is_stored(world: "World") -> None:
    world.source.produce(0, 0, 1)
    spout = world.open()
    ids = finish(world, spout, 0)
    world.writer.holds = True
    world.commit(spout)
    spout.ack(ids[1])
    spout._coordinator.commit()
    spout._coordinator.close()
    assert world.offsets.released == []
    answer(world)
    assert (world.offsets.offset(), world.offsets.released) == (1, [])
    answer(world)
    assert (world.offsets.offset(), world.offsets.released) == (2, [ZERO])


@pytest.mark.parametrize("late", [None, "timed out"])
def test_late_confirmation_stores_no_offset(world: "World", late: str | None) -> None:
    """The next owner may be running by then."""
    world.source.produce(0, 0)
    spout = world.open()
    finish(world, spout, 0)
    world.writer.holds = True
    asyncio.run(spout.close())
    assert world.offsets.released == [ZERO]
    answer(world, late)
    assert world.offsets.offset() == 0
    assert world.offsets.released == [ZERO]


def test_pending_range_of_a_lost_partition_stores_no_offset(world: "World") -> None:
    world.source.produce(0, 0)
    spout = world.open()
    finish(world, spout, 0)
    world.writer.holds = True
    world.commit(spout)
    world.offsets.standing[ZERO] = Ownership.FENCED
    world.run(spout)
    world.run(spout)
    saved = list(world.offsets.saved)
    answer(world)
    assert world.offsets.saved == saved


def test_start_after_the_first_offset_is_recorded_as_skipped(world: "World") -> None:
    """The record precedes the stored offset, so an audit finds no gap."""
    world.source.produce(0, *range(5))
    world.writer.holds = True
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout)
    assert world.offsets.offset() is None
    found = decode_range(world.writer.records[0][2] or b"")
    assert (found.start, found.end, found.n) == (0, 5, {"skipped": 5})
    assert (
        found.skipped[0].why
        == "nothing was stored, so the partition is read from the offset of start_offset_time=-1"
    )
    answer(world)
    assert world.offsets.offset() == 5


def test_refused_start_is_retried(world: "World") -> None:
    world.source.produce(0, *range(5))
    world.writer.refuses = "not yet"
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout)
    assert world.offsets.offset() is None
    world.writer.refuses = ""
    world.now += 1
    world.run(spout)
    assert world.offsets.offset() == 5


def test_offsets_too_far_behind_are_recorded_as_skipped(world: "World") -> None:
    world.source.produce(0, *range(10))
    world.offsets.stored[ZERO] = stored(2)
    world.run(world.open(start_offset_time=LATEST_TIME, max_offset_behind=3))
    assert world.writer.finished[0].skipped == [
        Skipped(2, 10, "more than max_offset_behind=3 behind the offset of start_offset_time=-1")
    ]


def test_an_ignored_offset_is_gone_back_from(world: "World") -> None:
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3, "words-0")
    world.run(world.open(ignore_zk_offsets=True))
    (found,) = world.writer.finished
    assert (found.start, found.end, found.n) == (3, 0, {})
    assert "ignore_zk_offsets" in found.skipped[0].why


@pytest.mark.parametrize("acked", [True, False])
def test_expired_offsets_are_recorded_as_skipped(world: "World", acked: bool) -> None:
    """Messages in flight make no difference."""
    world.source.produce(0, 0, 1, 2)
    spout = world.open()
    ids = finish(world, spout, *(range(3) if acked else ()))
    world.source.logs[ZERO].clear()
    world.source.starts[ZERO] = 10
    world.source.produce(0, 11)
    world.source.positions[ZERO] = 3
    spout.ack(world.run_ids(spout, 10)[11])
    for id in ids.values():
        spout.ack(id)
    world.commit(spout)
    assert world.offsets.offset() == 12
    counts = [found.n for found in world.writer.finished]
    assert {
        kind: sum(n.get(kind, 0) for n in counts) for kind in ("acked", "absent", "skipped")
    } == {"acked": 4, "absent": 1, "skipped": 7}
    skipped = [skip for found in world.writer.finished for skip in found.skipped]
    assert skipped == [Skipped(3, 10, "the broker no longer has offset 3")]


def test_without_a_guarantee_ranges_are_claimed(world: "World") -> None:
    world.source.produce(0, 0, 1)
    spout = world.open(processing_guarantee=ProcessingGuarantee.NO_GUARANTEE)
    for _ in range(5):
        spout.next_tuple()
    world.commit(spout)
    assert ranges(world) == [(0, 2, {"claimed": 2})]


@pytest.mark.parametrize(
    ("settings", "guarantee", "said"),
    [
        ({}, ProcessingGuarantee.AT_LEAST_ONCE, "acked"),
        ({}, ProcessingGuarantee.NO_GUARANTEE, "claimed"),
        ({}, ProcessingGuarantee.AT_MOST_ONCE, "claimed"),
        ({"topology_acker_executors": 0}, ProcessingGuarantee.AT_LEAST_ONCE, "claimed"),
        (
            {"topology_processing_guarantee": "exactly_once"},
            ProcessingGuarantee.AT_LEAST_ONCE,
            "acked",
        ),
        (
            {"topology_processing_guarantee": "exactly_once", "topology_acker_executors": 0},
            ProcessingGuarantee.AT_LEAST_ONCE,
            "committed",
        ),
    ],
)
def test_without_ackers_ranges_are_only_claimed(
    settings: dict[str, Any], guarantee: ProcessingGuarantee, said: str
) -> None:
    """Without ackers the outcome of a tree is unknown, although the spout's `ack` is called."""
    config = SpoutConfig(KafkaHosts(), "sentences", "", "s", processing_guarantee=guarantee)
    builder = TopologyBuilder("words", Config(**settings))
    builder.set_spout("lines", KafkaSpout(SpoutConfig(KafkaHosts(), "sentences", "", "s")))
    builder.set_bolt("sink", BasicBolt()).shuffle_grouping("lines")
    assert default_outcome(config, builder.build()) == said


def test_at_most_once_claims_a_range_before_emitting(world: "World") -> None:
    """The order is the range in Kafka, the offset in ZooKeeper, the emit."""
    world.source.produce(0, 0, 1)
    world.writer.holds = True
    spout = world.open(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE)
    assert world.run(spout) == []
    found = decode_range(world.writer.records[0][2] or b"")
    assert (found.start, found.end, found.n) == (0, 2, {"claimed": 2})
    assert world.offsets.offset() == 0
    answer(world)
    spout.next_tuple()
    assert len(world.collector.emitted) == 2
