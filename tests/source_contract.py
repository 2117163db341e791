"""The contract of a `SourceReader` with `KafkaSpout`. The real reader fulfils it on a real broker,
and so does the tests' fake.

Tests of the spout with the fake are only valid if the fake fulfils the contract. Each test class
provides `log`.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import pytest

from kstorm.kafka import EARLIEST_TIME, LATEST_TIME
from kstorm.kafka.ports import Broker, Partition, SourceFault, SourceReader

T = TypeVar("T")


class Log(Protocol):
    """A topic of two partitions, and its reader."""

    name: str
    reader: SourceReader

    def write(self, partition: int, count: int) -> None:
        """Append messages to a partition."""

    def write_undecodable(self, partition: int, count: int) -> None:
        """Append a batch of messages that no reader can decode."""

    def expire(self, partition: int, before: int) -> None:
        """Delete the messages before an offset."""


class SourceContract:
    """The tests of the contract."""

    def test_refresh_looks_up_partitions(self, log: Log) -> None:
        """They are sorted. `partitions` returns the same object until another look-up ends."""
        reader = log.reader
        assert reader.partitions(log.name) is None
        reader.refresh(log.name)
        found: Mapping[Partition, Broker] = at_last(lambda: reader.partitions(log.name))
        assert list(found) == [at(log, 0), at(log, 1)]
        assert reader.partitions(log.name) is found
        reader.refresh(log.name)
        again = at_last(lambda: other_than(found, reader.partitions(log.name)))
        assert again == found

    def test_each_offset_lookup_is_used_once(self, log: Log) -> None:
        """The next call looks up the earliest and the latest offset again."""
        log.write(0, 3)
        look_up = partial(log.reader.offset_for, at(log, 0))
        assert (at_last(lambda: look_up(EARLIEST_TIME)), at_last(lambda: look_up(LATEST_TIME))) == (
            0,
            3,
        )
        log.write(0, 1)
        log.expire(0, 2)
        assert (at_last(lambda: look_up(EARLIEST_TIME)), at_last(lambda: look_up(LATEST_TIME))) == (
            2,
            4,
        )

    def test_reading_starts_at_the_assigned_offset(self, log: Log) -> None:
        """A call returns at most the requested number of messages."""
        log.write(0, 10)
        log.reader.assign(at(log, 0), 4)
        first = at_last(lambda: log.reader.read(2))
        assert [message.offset() for message in first] == [4, 5][: len(first)]
        assert offsets(log, 6 - len(first)) == [4, 5, 6, 7, 8, 9][len(first) :]

    def test_second_assignment_restarts_at_its_offset(self, log: Log) -> None:
        """Messages that were fetched for the old position are dropped."""
        log.write(0, 100)
        log.reader.assign(at(log, 0), 0)
        assert offsets(log, 10) == list(range(10))
        log.reader.assign(at(log, 0), 90)
        assert offsets(log, 10) == list(range(90, 100))
        log.reader.assign(at(log, 0), 20)
        assert offsets(log, 80) == list(range(20, 100))

    def test_unassigned_partition_is_not_read(self, log: Log) -> None:
        """A second `unassign` has no effect."""
        log.write(0, 5)
        log.write(1, 5)
        log.reader.unassign(at(log, 0))
        log.reader.assign(at(log, 0), 0)
        log.reader.assign(at(log, 1), 0)
        log.reader.unassign(at(log, 0))
        log.reader.unassign(at(log, 0))
        assert offsets(log, 5) == list(range(5))
        log.write(0, 5)
        log.write(1, 1)
        assert read(log, 1) == [(1, 5)]

    def test_paused_partition_keeps_its_position(self, log: Log) -> None:
        """It returns no messages while it is paused, not even fetched ones.

        After `resume` none is missing.
        """
        log.write(0, 10)
        log.reader.assign(at(log, 0), 0)
        log.reader.assign(at(log, 1), 0)
        assert offsets(log, 4) == [0, 1, 2, 3]
        log.reader.pause(at(log, 0))
        log.write(1, 1)
        assert read(log, 1) == [(1, 0)]
        log.reader.resume(at(log, 0))
        assert offsets(log, 6) == [4, 5, 6, 7, 8, 9]

    def test_pause_ends_with_the_assignment(self, log: Log) -> None:
        """A partition that was unassigned while paused is read after the next assignment.

        librdkafka's own pause would outlast the assignment.
        """
        log.write(0, 10)
        log.reader.assign(at(log, 0), 0)
        assert offsets(log, 4) == [0, 1, 2, 3]
        log.reader.pause(at(log, 0))
        log.reader.unassign(at(log, 0))
        for begin in (2, 7, 0):
            log.reader.assign(at(log, 0), begin)
            assert offsets(log, 10 - begin) == list(range(begin, 10))
            log.reader.pause(at(log, 0))
        log.reader.pause(at(log, 0))
        log.reader.resume(at(log, 0))
        log.write(0, 1)
        assert offsets(log, 1) == [10]

    def test_pause_just_before_the_end_of_an_assignment(self, log: Log) -> None:
        """Nothing is fetched yet.

        The test repeats this because clients work on threads of their own.
        """
        log.write(0, 3)
        for _ in range(20):
            log.reader.assign(at(log, 0), 0)
            log.reader.pause(at(log, 0))
            log.reader.unassign(at(log, 0))
        log.reader.assign(at(log, 0), 1)
        assert offsets(log, 2) == [1, 2]

    def test_expired_offset_is_reported_and_nothing_is_read(self, log: Log) -> None:
        """The partition stays unread until the spout assigns it again: only the spout chooses the
        offset."""
        log.write(0, 5)
        log.write(1, 1)
        log.expire(0, 3)
        log.reader.assign(at(log, 0), 1)
        log.reader.assign(at(log, 1), 0)
        assert read(log, 1) == [(1, 0)]
        told = at_last(partial(out_of_range, log))
        assert told.partition == at(log, 0)
        log.write(1, 1)
        assert read(log, 1) == [(1, 1)]
        log.reader.assign(at(log, 0), 3)
        assert offsets(log, 2) == [3, 4]

    def test_offset_beyond_the_end_is_reported(self, log: Log) -> None:
        """This happens with a recreated topic. An offset exactly at the end is valid."""
        log.write(0, 5)
        log.reader.assign(at(log, 0), 77)
        assert at_last(partial(out_of_range, log)).partition == at(log, 0)
        log.reader.assign(at(log, 0), 5)
        log.write(0, 1)
        assert offsets(log, 1) == [5]
        assert list(log.reader.faults()) == []

    @pytest.mark.parametrize("count", [1, 2, 37])
    def test_undecodable_batch_is_reported_and_stops_the_partition(
        self, log: Log, count: int
    ) -> None:
        """The report comes once, after all messages before the batch, and names its last offset.

        The partition stays unread until it is assigned again.
        """
        log.write(0, 3)
        log.write_undecodable(0, count)
        log.write(0, 2)
        log.write(1, 1)
        log.reader.assign(at(log, 0), 1)
        assert offsets(log, 2) == [1, 2]
        assert list(log.reader.faults()) == []
        told = at_last(partial(undecodable, log))
        assert (told.partition, told.undecodable) == (at(log, 0), (3, 3 + count))
        log.reader.assign(at(log, 1), 0)
        assert read(log, 1) == [(1, 0)]
        assert list(log.reader.faults()) == []
        log.reader.assign(at(log, 0), 3 + count)
        assert offsets(log, 2) == [3 + count, 4 + count]
        assert list(log.reader.faults()) == []

    def test_second_undecodable_batch_is_reported_after_the_first_is_skipped(
        self, log: Log
    ) -> None:
        """The batches are adjacent, and the latter is the end of the partition."""
        log.write_undecodable(0, 4)
        log.write_undecodable(0, 3)
        log.reader.assign(at(log, 0), 0)
        assert at_last(partial(undecodable, log)).undecodable == (0, 4)
        log.reader.assign(at(log, 0), 4)
        assert at_last(partial(undecodable, log)).undecodable == (4, 7)
        log.reader.assign(at(log, 0), 7)
        log.write(0, 1)
        assert offsets(log, 1) == [7]

    def test_undecodable_range_is_the_whole_batch_from_any_start(self, log: Log) -> None:
        """The range is the same after the partition was unassigned."""
        log.write_undecodable(0, 9)
        for begin in (5, 8, 0):
            log.reader.assign(at(log, 0), begin)
            assert at_last(partial(undecodable, log)).undecodable == (0, 9)
            log.reader.unassign(at(log, 0))

    def test_reading_reveals_the_end_offset(self, log: Log) -> None:
        """The reader sends no request for it."""
        log.write(0, 5)
        assert log.reader.end_offset(at(log, 0)) is None
        log.reader.assign(at(log, 0), 0)
        offsets(log, 5)
        assert log.reader.end_offset(at(log, 0)) == 5

    def test_the_end_is_reported_after_the_last_message(self, log: Log) -> None:
        """The reader reports it each time, and forgets it with the assignment."""
        log.write(0, 3)
        log.reader.assign(at(log, 0), 1)
        assert offsets(log, 2) == [1, 2]
        assert at_last(partial(end_of, log)) == 3
        assert log.reader.ends_reached() == {}
        log.write(0, 1)
        assert offsets(log, 1) == [3]
        assert at_last(partial(end_of, log)) == 4
        log.reader.assign(at(log, 0), 0)
        assert offsets(log, 4) == [0, 1, 2, 3]
        assert at_last(partial(end_of, log)) == 4
        log.reader.unassign(at(log, 0))
        assert end_of(log) is None


def end_of(log: Log) -> int | None:
    """Return the end that was reached."""
    assert not log.reader.read(1)
    return log.reader.ends_reached().get(at(log, 0))


def at(log: Log, partition: int) -> Partition:
    return Partition(log.name, partition)


def at_last(ask: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Call `ask` until it returns something other than None or an empty list."""
    deadline = time.monotonic() + timeout
    while (found := ask()) is None or found == []:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.002)
    return found


def other_than(known: T, found: T) -> T | None:
    return None if found is known else found


def read(log: Log, count: int) -> list[tuple[int, int]]:
    """Return partition and offset of the next messages."""
    got: list[tuple[int, int]] = []
    while len(got) < count:
        got += [
            (m.partition(), m.offset()) for m in at_last(partial(log.reader.read, count - len(got)))
        ]
    return got


def offsets(log: Log, count: int) -> list[int]:
    """Return the offsets of the next messages, which must belong to one partition."""
    found = read(log, count)
    assert len({partition for partition, _ in found}) <= 1, found
    return [offset for _, offset in found]


def undecodable(log: Log) -> SourceFault | None:
    log.reader.read(1)
    return next((fault for fault in log.reader.faults() if fault.undecodable is not None), None)


def out_of_range(log: Log) -> SourceFault | None:
    log.reader.read(1)
    return next((fault for fault in log.reader.faults() if fault.out_of_range), None)
