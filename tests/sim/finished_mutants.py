"""The rules of finished ranges, each with a way to switch it off."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kstorm.kafka.completed_ranges import Run, runs_between
from kstorm.kafka.finished_ranges import OffsetOutcomes
from kstorm.kafka.offset_committer import OffsetCommitter
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.positioned_offsets import PositionedOffsets
from kstorm.kafka.spout import KafkaSpout
from tests.sim.at_most_once import explore_at_most_once
from tests.sim.exactly_once.ranges import explore_ranges
from tests.sim.kafka_source import SourceTopic
from tests.sim.mutant import Mutant, storm


def _stored_before_its_range_is_there() -> AbstractContextManager[object]:
    write = OffsetCommitter.write_range

    def hasty(self: OffsetCommitter, partition: Any, finished: Any, written: Any) -> None:
        write(self, partition, finished, lambda _: None)
        written(True)

    return patch.object(OffsetCommitter, "write_range", hasty)


def _refused_is_as_good_as_written() -> AbstractContextManager[object]:
    write = OffsetCommitter.write_range

    def trusting(self: OffsetCommitter, partition: Any, finished: Any, written: Any) -> None:
        write(self, partition, finished, lambda _: written(True))

    return patch.object(OffsetCommitter, "write_range", trusting)


def _one_too_far() -> AbstractContextManager[object]:
    save = OffsetCommitter.save

    def far(self: OffsetCommitter, partition: Any, offset: int, done: Any = (), *more: Any) -> None:
        save(self, partition, offset + 1, [run for run in done if run[0] > offset], *more)

    return patch.object(OffsetCommitter, "save", far)


def _done_is_what_was_emitted() -> AbstractContextManager[object]:
    def hasty(self: PartitionManager, offset: int) -> list[Run]:
        return runs_between(offset + 1, self.next_offset, sorted(self.outcomes.exceptions(offset)))

    return patch.object(PartitionManager, "done_above", hasty)


@contextmanager
def _past_the_oldest_seen_by_ranges_alone() -> Iterator[None]:
    with (
        patch.object(
            PartitionManager, "last_completed_offset", property(lambda manager: manager.next_offset)
        ),
        patch.object(SourceTopic, "passed", lambda *_: None),
    ):
        yield


def _not_bounded_by_the_position() -> AbstractContextManager[object]:
    def note(self: KafkaSpout) -> None:
        self._read_to.update(
            (manager.partition, manager.next_offset) for manager in self._coordinator.all_managers()
        )

    return patch.object(KafkaSpout, "_note_positions", note)


def _a_former_life_acked_it() -> AbstractContextManager[object]:
    make = OffsetOutcomes.__init__

    def forgetful(
        self: OffsetOutcomes, start: int, reached: int | None = None, **more: Any
    ) -> None:
        make(self, start, **more)

    return patch.object(OffsetOutcomes, "__init__", forgetful)


def _the_position_is_stored_at_once() -> AbstractContextManager[object]:
    load = PositionedOffsets.load

    def eager(self: PositionedOffsets, partition: Any) -> Any:
        found = load(self, partition)
        if found is not None and found.offset != self.stored_offset(partition):
            self._store.save(partition, self._marked(found))
        return found

    return patch.object(PositionedOffsets, "load", eager)


def range_mutants() -> list[Mutant]:
    """The rules of exactly-once processing."""
    rules = [
        ("uncommitted messages are in no range", _not_bounded_by_the_position),
        ("a spout reports messages of an earlier run only as committed", _a_former_life_acked_it),
        ("the position is also stored after a range", _the_position_is_stored_at_once),
    ]
    return [
        Mutant(f"exactly once, ranges: {rule}", off, explore_ranges, 1000) for rule, off in rules
    ]


def finished_mutants() -> list[Mutant]:
    """Every rule, by topic."""
    return [
        Mutant(
            "finished: a range is in Kafka before its offset is stored",
            _stored_before_its_range_is_there,
        ),
        Mutant(
            "finished: messages of a refused range are in the next range",
            _refused_is_as_good_as_written,
            storm,
        ),
        Mutant("finished: an offset is stored no further than its range goes", _one_too_far),
        Mutant(
            "finished: a message that is not finished is in no range",
            _past_the_oldest_seen_by_ranges_alone,
        ),
        Mutant(
            "finished: gaps in the log count as absent",
            lambda: patch.object(OffsetOutcomes, "gap", lambda *_: None),
        ),
        Mutant("finished runs: only finished messages", _done_is_what_was_emitted),
        Mutant(
            "finished runs: only acked messages",
            lambda: patch.object(OffsetOutcomes, "exceptions", lambda *_: []),
        ),
        Mutant(
            "finished: dead letters are listed",
            lambda: patch.object(OffsetOutcomes, "dead", lambda *_: None),
        ),
        Mutant(
            "finished: undecodable messages are skipped",
            lambda: patch.object(OffsetOutcomes, "skip", lambda *_: None),
        ),
        Mutant(
            "finished: messages without tuples are counted",
            lambda: patch.object(OffsetOutcomes, "empty", lambda *_: None),
        ),
        Mutant(
            "finished: at most once, a range is in Kafka before its offset is stored",
            _stored_before_its_range_is_there,
            explore_at_most_once,
        ),
    ]
