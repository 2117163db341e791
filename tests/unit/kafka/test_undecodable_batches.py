"""A spout reads an undecodable batch: one dead letter, complete ranges, and the next messages."""

from typing import TYPE_CHECKING

import pytest

from kstorm.kafka import ProcessingGuarantee
from kstorm.kafka.finished_ranges import Skipped
from kstorm.kafka.ports import SourceFault
from tests.unit.kafka.partition_zero import ZERO

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


def test_batch_becomes_a_dead_letter_and_later_messages_are_emitted(world: "World") -> None:
    """The dead letter has the batch's first offset, and no content, because it cannot be decoded."""
    world.source.produce(0, 0, 1)
    world.source.produce_undecodable(0, 5)
    world.source.produce(0, 7, 8)
    spout = world.open()
    assert world.run(spout, 10) == [0, 1, 7, 8]
    (letter,) = world.collector.letters
    assert (letter.topic, letter.partition, letter.offset) == ("sentences", 0, 2)
    assert (letter.value, letter.key, letter.attempts, letter.reason) == (None, None, 1, "as told")
    assert [str(error) for error in world.collector.errors] == ["as told"]


def test_the_offset_waits_for_its_dead_letter_and_no_range_leaves_it_out(world: "World") -> None:
    """The first offset is dead, and the others are skipped with the reason."""
    world.source.produce(0, 0, 1)
    world.source.produce_undecodable(0, 5)
    world.source.produce(0, 7, 9)
    spout = world.open()
    ids = world.run_ids(spout, 10)
    for id in ids.values():
        spout.ack(id)
    world.commit(spout)
    assert world.offsets.offset() == 2
    world.collector.letters[0].stored()
    world.commit(spout)
    assert world.offsets.offset() == 10
    before, after = world.writer.finished
    assert (before.start, before.end, before.n) == (0, 2, {"acked": 2})
    assert (after.start, after.end) == (2, 10)
    assert after.n == {"acked": 2, "dead": 1, "skipped": 4, "absent": 1}
    assert after.dead == [(2, 3)]
    assert after.skipped == [Skipped(3, 7, "as told")]


@pytest.mark.parametrize("count", [1, 3])
def test_partition_with_only_an_undecodable_batch(world: "World", count: int) -> None:
    world.source.produce_undecodable(0, count)
    spout = world.open()
    assert world.run(spout, 10) == []
    world.collector.letters[0].stored()
    world.commit(spout)
    assert world.offsets.offset() == count
    assert sum(world.writer.finished[0].n.values()) == count


def test_several_in_a_row_are_a_dead_letter_each(world: "World") -> None:
    for count in (3, 1, 2):
        world.source.produce_undecodable(0, count)
    world.source.produce(0, 6)
    spout = world.open()
    assert world.run(spout, 20) == [6]
    assert [letter.offset for letter in world.collector.letters] == [0, 3, 4]
    for letter in world.collector.letters:
        letter.stored()
    world.commit(spout)
    assert world.offsets.offset() == 6
    assert world.writer.finished[-1].n == {"dead": 3, "skipped": 3}


def test_dead_letter_follows_earlier_messages(world: "World") -> None:
    """It comes after the messages that were read but may not be emitted yet."""
    world.source.produce(0, 0, 1, 2)
    world.source.produce_undecodable(0, 2)
    world.source.produce(0, 5)
    spout = world.open(max_uncommitted_offsets=2)
    ids = world.run_ids(spout, 10)
    assert list(ids) == [0, 1]
    assert world.collector.letters == []
    for id in ids.values():
        spout.ack(id)
    for id in world.run_ids(spout, 10).values():
        spout.ack(id)
    assert [letter.offset for letter in world.collector.letters] == [3]


def test_rest_of_a_partly_read_batch_is_given_up(world: "World") -> None:
    """A fault names the whole batch, whatever the partition's position in it."""
    world.source.produce(0, 0, 1, 2, 3)
    spout = world.open()
    world.run(spout)
    world.source.waiting_faults.append(SourceFault("bad", ZERO, undecodable=(2, 9)))
    world.source.produce(0, 9)
    assert world.run(spout) == [9]
    assert [letter.offset for letter in world.collector.letters] == [4]
    world.source.waiting_faults.append(SourceFault("bad", ZERO, undecodable=(2, 5)))
    world.source.produce(0, 10)
    assert world.run(spout) == [10]
    assert len(world.collector.letters) == 1


def test_at_most_once_claims_the_whole_batch(world: "World") -> None:
    """After a crash, the next process continues after the batch."""
    world.source.produce(0, 0)
    world.source.produce_undecodable(0, 4)
    spout = world.open(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE)
    for _ in range(20):
        spout.next_tuple()
    assert [letter.offset for letter in world.collector.letters] == [1]
    assert world.offsets.offset() == 5
    assert set().union(
        *(set(range(found.start, found.end)) for found in world.writer.finished)
    ) == set(range(5))
