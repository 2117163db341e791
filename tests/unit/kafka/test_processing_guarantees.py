"""A spout's processing guarantees: at least once, at most once, or none."""

from typing import TYPE_CHECKING, Any

import pytest

from kstorm.errors import ConfigError, EmitError
from kstorm.kafka import KafkaHosts, KafkaSpout, ProcessingGuarantee, SpoutConfig
from kstorm.kafka.ports import Ownership, Partition
from tests.unit.kafka.test_partition_manager import Words

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World

ZERO = Partition("sentences", 0)
AT_LEAST_ONCE, AT_MOST_ONCE, NO_GUARANTEE = ProcessingGuarantee


def values(world: "World", spout: KafkaSpout, calls: int = 5) -> list[Any]:
    """Returns the values that a few calls emit without message ids."""
    for _ in range(calls):
        spout.next_tuple()
    emitted, world.collector.emitted = world.collector.emitted, []
    assert all(id is None for _, id, _ in emitted)
    return [values[0] for values, _, _ in emitted]


def fill(world: "World", *offsets: int) -> None:
    """Produces messages that contain their offset."""
    for offset in offsets:
        world.source.produce(0, offset, body=b"%d" % offset)


def begun(world: "World", guarantee: ProcessingGuarantee) -> KafkaSpout:
    """Opens a spout whose start is stored. Later writes to ZooKeeper are slow."""
    world.offsets.slow = True
    spout = world.open(processing_guarantee=guarantee)
    assert values(world, spout) == []
    world.offsets.arrive()
    return spout


def test_at_least_once_is_the_default() -> None:
    """This is as in storm-kafka-client."""
    assert SpoutConfig(KafkaHosts(), "t", "", "s").processing_guarantee is AT_LEAST_ONCE


def test_unknown_guarantee_is_refused() -> None:
    """The error lists the three guarantees."""
    with pytest.raises(
        ConfigError,
        match=r"is 'AT_MOST_ONCE': it must be one of ProcessingGuarantee\.AT_LEAST_ONCE",
    ):
        SpoutConfig(KafkaHosts(), "t", "", "s", processing_guarantee="AT_MOST_ONCE")  # type: ignore[arg-type]


def test_at_most_once_emits_nothing_before_the_store_has_it(world: "World") -> None:
    """The messages are emitted when the offset after them has been stored, and not before."""
    fill(world, 0, 1, 2)
    spout = begun(world, AT_MOST_ONCE)
    assert values(world, spout) == []
    assert world.offsets.saved == [0, 3]
    world.offsets.arrive()
    assert values(world, spout) == [b"0", b"1", b"2"]


def test_at_most_once_claims_in_batches(world: "World") -> None:
    """Messages read during a write wait for the next write, so there is one write per batch."""
    fill(world, 0, 1)
    spout = begun(world, AT_MOST_ONCE)
    values(world, spout)
    fill(world, 2, 3, 4)
    assert values(world, spout) == []
    world.offsets.arrive()
    assert values(world, spout) == [b"0", b"1"]
    assert world.offsets.saved == [0, 2, 5]
    world.offsets.arrive()
    assert values(world, spout) == [b"2", b"3", b"4"]


def test_at_most_once_never_emits_what_an_earlier_process_may_have(world: "World") -> None:
    """The process crashed after its offset was stored. The messages below it are not emitted again."""
    fill(world, *range(5))
    dying = begun(world, AT_MOST_ONCE)
    values(world, dying)
    world.offsets.arrive()
    fill(world, 5, 6)
    assert values(world, world.open(processing_guarantee=AT_MOST_ONCE)) == []
    world.offsets.arrive()
    assert values(world, world.open(processing_guarantee=AT_MOST_ONCE)) == []
    assert world.offsets.offset() == 7


def test_at_most_once_loses_nothing_by_closing(world: "World") -> None:
    """The next owner gets messages that were claimed but not emitted."""
    fill(world, *range(5))
    spout = begun(world, AT_MOST_ONCE)
    values(world, spout)
    world.offsets.arrive()
    assert values(world, spout, 1) == [b"%d" % offset for offset in range(5)]
    fill(world, 5, 6)
    values(world, spout)
    assert world.offsets.saved[-1] == 7
    spout._coordinator.close()
    world.offsets.arrive()
    assert world.offsets.offset() == 5
    assert values(world, world.open(processing_guarantee=AT_MOST_ONCE)) == []
    world.offsets.arrive()


def test_at_most_once_emits_nothing_of_a_partition_that_is_in_doubt(world: "World") -> None:
    """Its lock was lost before its offset was stored, so another task may have started."""
    fill(world, 0)
    spout = begun(world, AT_MOST_ONCE)
    values(world, spout)
    world.offsets.standing[ZERO] = Ownership.FENCED
    world.offsets.under_way.clear()
    assert values(world, spout) == []


def test_at_most_once_with_a_recreated_topic(world: "World") -> None:
    """The old log's offset is far beyond the new end, and must not release new messages early."""
    fill(world, *range(100))
    spout = world.open(processing_guarantee=AT_MOST_ONCE)
    assert len(values(world, spout)) == 100
    world.source.logs[ZERO].clear()
    fill(world, 0, 1)
    world.offsets.slow = True
    assert values(world, spout) == []
    assert world.offsets.saved[-1] == 0
    world.offsets.arrive()
    assert values(world, spout) == []
    assert world.offsets.saved[-1] == 2
    world.offsets.arrive()
    assert values(world, spout) == [b"0", b"1"]


def test_a_batch_waits_for_its_claim_before_the_partition_is_paused(world: "World") -> None:
    """Then it buffers no more until ZooKeeper responds."""
    fill(world, *range(1200))
    spout = begun(world, AT_MOST_ONCE)
    values(world, spout)
    assert world.source.paused == {ZERO}
    assert world.source.positions[ZERO] == 500
    for _ in range(4):
        world.offsets.arrive()
        values(world, spout)
    assert world.source.positions[ZERO] == 1200
    assert world.source.paused == set()


def test_without_a_guarantee_what_is_emitted_is_done(world: "World") -> None:
    """Nothing is tracked. The offset is stored at the interval, whatever happens to the tuples."""
    fill(world, 0, 1, 2)
    spout = world.open(processing_guarantee=NO_GUARANTEE)
    assert values(world, spout) == [b"0", b"1", b"2"]
    assert world.offsets.saved == [0]
    assert spout.metrics()["pending"] == 0
    world.commit(spout)
    assert world.offsets.saved == [0, 3]


def test_without_a_guarantee_zookeeper_is_not_waited_for(world: "World") -> None:
    """After a crash, messages above the stored offset are emitted again."""
    fill(world, 0, 1, 2)
    spout = begun(world, NO_GUARANTEE)
    assert values(world, spout) == [b"0", b"1", b"2"]
    world.commit(spout)
    assert values(world, world.open(processing_guarantee=NO_GUARANTEE)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("guarantee", [AT_MOST_ONCE, NO_GUARANTEE])
def test_message_that_cannot_be_emitted_is_a_dead_letter_with_every_guarantee(
    world: "World", guarantee: ProcessingGuarantee
) -> None:
    """The other tuples are emitted."""
    world.source.produce(0, 0, body=b"to be")
    world.source.produce(0, 1, body=b"\xff")
    spout = world.open(processing_guarantee=guarantee, scheme=Words())
    assert values(world, spout) == ["to", "be"]
    assert [(letter.offset, letter.reason[:22]) for letter in world.collector.letters] == [
        (1, "cannot be deserialized")
    ]
    world.collector.refuse = EmitError("too large")
    world.source.produce(0, 2, body=b"far too large")
    assert values(world, spout) == []
    assert (world.collector.letters[-1].offset, world.collector.letters[-1].reason) == (
        2,
        "cannot be emitted: too large",
    )
