"""The offset at which a spout starts to read a partition, and the conditions for the start."""

from typing import TYPE_CHECKING

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME, KafkaHosts
from kstorm.kafka.ports import Ownership, Partition
from tests.unit.kafka.partition_zero import ZERO, stored

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def test_nothing_starts_before_the_lock_is_held(world: "World") -> None:
    """The partition is not read or emitted while another process holds it."""
    world.source.produce(0, 0)
    world.offsets.standing[ZERO] = Ownership.WAITING
    spout = world.open()
    assert world.run(spout) == []
    assert not world.source.positions
    world.offsets.standing[ZERO] = Ownership.HELD
    assert world.run(spout) == [0]


def test_spout_resumes_at_the_stored_offset(world: "World") -> None:
    """The stored offset is the first unfinished one."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3)
    assert world.run(world.open(start_offset_time=LATEST_TIME)) == [3, 4]


@pytest.mark.parametrize(
    ("time", "first"), [(EARLIEST_TIME, 0), (LATEST_TIME, 5), (1_700_000_000_000, 2)]
)
def test_without_a_stored_offset_it_starts_at_the_configured_time(
    world: "World", time: int, first: int
) -> None:
    """The start is the oldest message, the newest, or a Unix time in ms."""
    world.source.produce(0, *range(5))
    world.source.times[1_700_000_000_000] = 2
    spout = world.open(start_offset_time=time)
    world.run(spout)
    assert world.source.positions[ZERO] == 5
    world.source.produce(0, 5)
    world.commit(spout)
    assert world.offsets.offset() == first


def test_start_at_latest_is_stored_at_once(world: "World") -> None:
    """A crash before the first ack must not skip messages written since the start."""
    world.source.produce(0, *range(5))
    spout = world.open(start_offset_time=LATEST_TIME)
    world.run(spout)
    world.commit(spout)
    assert world.offsets.offset() == 5


def test_ignored_offsets_are_those_of_another_deployment(world: "World") -> None:
    """`ignore_zk_offsets` restarts a new deployment, but resumes a restarted process."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3, "words-0")
    assert world.run(world.open(ignore_zk_offsets=True)) == [0, 1, 2, 3, 4]
    world.offsets.stored[ZERO] = stored(3, "words-1")
    assert world.run(world.open(ignore_zk_offsets=True)) == [3, 4]


def test_a_deployment_that_starts_over_is_known_again_at_once(world: "World") -> None:
    """The new deployment stores its start at once, even at the same offset.

    Otherwise a crash before the first ack would start it again at a later end, and lose messages.
    """
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(5, "words-0")
    spout = world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)
    world.run(spout)
    world.commit(spout)
    assert world.offsets.stored[ZERO] == stored(5, "words-1")
    world.source.produce(0, 5, 6)
    assert world.run(world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)) == [5, 6]


def test_ignoring_offsets_needs_an_id_of_the_deployment(world: "World") -> None:
    """Without one, every restart would begin at the start again."""
    world.topology_id = None
    with pytest.raises(
        ConfigError, match=r"'lines' has ignore_zk_offsets set.*set KSTORM_TOPOLOGY_ID"
    ):
        world.open(ignore_zk_offsets=True)


@pytest.mark.parametrize(("behind", "first"), [(3, 3), (1, 5)])
def test_offset_too_far_behind_is_skipped(world: "World", behind: int, first: int) -> None:
    """`max_offset_behind` is compared with the position of `start_offset_time`."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(3)
    spout = world.open(start_offset_time=LATEST_TIME, max_offset_behind=behind)
    world.run(spout)
    world.source.produce(0, 5)
    world.commit(spout)
    assert world.offsets.offset() == first


def test_invalid_stored_offset_is_reported(world: "World") -> None:
    """The other partitions continue. The next refresh tries this one again."""
    world.source.produce(0, 0)
    world.offsets.unreadable = ConfigError("not a stored offset")
    spout = world.open()
    assert world.run(spout) == []
    assert len(world.collector.errors) == 1
    world.offsets.unreadable = None
    world.now += 60
    assert world.run(spout) == [0]


def test_a_topic_that_does_not_exist_yet_is_looked_for(world: "World") -> None:
    """The spout looks every 2 seconds, and not only at the usual refresh."""
    spout = world.open()
    assert world.run(spout) == []
    world.source.produce(0, 0)
    world.now += 2
    assert world.run(spout) == [0]


@pytest.mark.parametrize("time", [EARLIEST_TIME, LATEST_TIME])
def test_nothing_is_emitted_before_its_start_is_stored(world: "World", time: int) -> None:
    """After a crash before the first save, it would start at a later end and skip emitted messages."""
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
    ]  # the first one has crashed


def test_start_offset_is_stored_before_it_is_used(world: "World") -> None:
    """Another deployment may have the same offset."""
    world.source.produce(0, *range(5))
    world.offsets.stored[ZERO] = stored(5, "words-0")
    world.offsets.slow = True
    spout = world.open(ignore_zk_offsets=True, start_offset_time=LATEST_TIME)
    world.run(spout)
    world.source.produce(0, 5)
    assert world.run(spout) == []
    world.offsets.arrive()
    assert world.run(spout) == [5]


def test_new_start_after_expiry_is_stored_first(world: "World") -> None:
    """The stored offset has expired. A crash before the first save would skip to a later end."""
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


def test_partition_lost_before_its_start_is_stored_starts_again(
    world: "World",
) -> None:
    """The next owner starts at the offset that is the end by then."""
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
    """Messages that precede its discovery were written while the spout ran.

    The same holds for topics.
    """
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
    """Topics that exist at the start are read from their end."""
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
