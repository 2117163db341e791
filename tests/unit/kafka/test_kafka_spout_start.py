"""Where a spout begins to read a partition, and what it waits for before it does."""

from typing import TYPE_CHECKING

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME, KafkaHosts
from kstorm.kafka.ports import Ownership, Partition
from tests.unit.kafka.partition_zero import ZERO, stored

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


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


@pytest.mark.parametrize(
    ("time", "first"), [(EARLIEST_TIME, 0), (LATEST_TIME, 5), (1_700_000_000_000, 2)]
)
def test_without_a_stored_offset_it_starts_at_the_configured_time(
    world: "World", time: int, first: int
) -> None:
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
    with pytest.raises(
        ConfigError, match=r"'lines' has ignore_zk_offsets set.*set KSTORM_TOPOLOGY_ID"
    ):
        world.open(ignore_zk_offsets=True)


@pytest.mark.parametrize(("behind", "first"), [(3, 3), (1, 5)])
def test_offset_too_far_behind_is_skipped(world: "World", behind: int, first: int) -> None:
    """`max_offset_behind` compares with where `start_offset_time` would start."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3)
    spout = world.open(start_offset_time=LATEST_TIME, max_offset_behind=behind)
    world.run(spout)
    world.source.produce(0, 5)
    world.commit(spout)
    assert world.offsets.offset() == first


def test_invalid_stored_offset_is_reported(world: "World") -> None:
    """The other partitions go on, and this one is tried again at the next refresh."""
    world.source.produce(0, 0)
    world.offsets.unreadable = ConfigError("not a stored offset")
    spout = world.open()
    assert world.run(spout) == []
    assert len(world.collector.errors) == 1
    world.offsets.unreadable = None
    world.now += 60
    assert world.run(spout) == [0]


def test_a_topic_that_does_not_exist_yet_is_looked_for(world: "World") -> None:
    """Every 2 seconds, not only at the usual refresh."""
    spout = world.open()
    assert world.run(spout) == []
    world.source.produce(0, 0)
    world.now += 2
    assert world.run(spout) == [0]


@pytest.mark.parametrize("time", [EARLIEST_TIME, LATEST_TIME])
def test_nothing_is_emitted_before_its_start_is_stored(world: "World", time: int) -> None:
    """Killed before the first save, it would start at a later end, and skip what it had emitted."""
    world.source.produce(0, *range(5))
    world.offsets.slow = True
    spout = world.open(start_offset_time=time)
    world.run(spout)
    world.source.produce(0, 5, 6)
    assert world.run(spout, 20) == []
    assert world.offsets.saved == [0 if time == EARLIEST_TIME else 5]
    world.offsets.arrive()
    assert world.run(spout)[-2:] == [5, 6]
    world.source.produce(0, 7)
    assert world.run(world.open(start_offset_time=LATEST_TIME))[-3:] == [
        5,
        6,
        7,
    ]  # the first one was killed


def test_start_offset_is_stored_before_it_is_used(world: "World") -> None:
    """Another deployment's may be the very same offset."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(5, "words-0")
    world.offsets.slow = True
    spout = world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)
    world.run(spout)
    world.source.produce(0, 5)
    assert world.run(spout) == []
    world.offsets.arrive()
    assert world.run(spout) == [5]


def test_where_it_starts_over_is_stored_first(world: "World") -> None:
    """The stored offset has expired: killed before the first save, it would skip to a later end."""
    world.offsets.stored[ZERO] = stored(3)
    world.source.starts[ZERO] = 10
    world.source.produce(0, 10, 11)
    world.offsets.slow = True
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout, 10)
    world.source.produce(0, 12)
    assert world.run(spout) == []
    world.offsets.arrive()
    assert world.run(spout) == [12]
    assert world.offsets.offset() == 12


def test_partition_lost_before_its_start_is_stored_starts_again(world: "World") -> None:
    """By whoever has it next, from where that is then."""
    world.source.produce(0, *range(5))
    world.offsets.slow = True
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout)
    world.offsets.standing[ZERO] = Ownership.FENCED
    world.offsets.under_way.clear()
    world.offsets.stored[ZERO] = stored(2)
    assert world.run(spout) == [2, 3, 4]
    assert world.offsets.saved == [5]


@pytest.mark.parametrize("there_first", [True, False])
def test_partition_found_later_is_read_from_its_start(world: "World", there_first: bool) -> None:
    """What was written to it before it was found was written while the spout was at work. So it is with a topic."""
    if there_first:
        world.source.produce(0, *range(5))
    spout = world.open(start_offset_time=LATEST_TIME, hosts=KafkaHosts(refresh_freq_secs=2))
    assert world.run(spout) == []
    world.source.produce(1, 0, 1)
    world.now += 2
    assert world.run(spout, 10) == [0, 1]
    one = Partition("sentences", 1)
    assert world.offsets.stored[one].offset == 0
    world.source.starts[one] = 7
    world.source.logs[one].clear()
    world.source.produce(1, 7, 8)
    assert world.run(spout, 10) == [7, 8]


def test_topic_found_later_is_read_from_its_start(world: "World") -> None:
    """Those that were there are read from their end."""
    world.source.produce(0, 0, 1, topic="logs-a")
    hosts = KafkaHosts(refresh_freq_secs=2)
    spout = world.open(
        start_offset_time=LATEST_TIME, topic="logs-.*", kafka_topic_wildcard_match=True, hosts=hosts
    )
    assert world.run(spout) == []
    world.source.produce(0, 0, 1, topic="logs-b")
    world.source.produce(0, 2, topic="logs-a")
    world.now += 2
    for _ in range(10):
        spout.next_tuple()
    assert {(id.partition.topic, id.offset) for _, id in world.collector.take()} == {
        ("logs-a", 2),
        ("logs-b", 0),
        ("logs-b", 1),
    }
