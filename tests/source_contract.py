"""What `KafkaSpout` relies on in a `SourceReader`: held by the real one on a real broker, and by the tests' fake.

A test of the spout against the fake says something only if the fake has these ways. Each class of tests gives `log`.
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
    """A topic of two partitions, and a reader of it."""

    name: str
    reader: SourceReader

    def write(self, partition: int, count: int) -> None:
        """Appends messages to a partition."""

    def write_undecodable(self, partition: int, count: int) -> None:
        """Appends a batch of messages that no reader can decode."""

    def expire(self, partition: int, before: int) -> None:
        """Deletes the messages before an offset."""


class SourceContract:
    """The tests."""

    def test_partitions_are_looked_up_when_that_is_asked_for(self, log: Log) -> None:
        """In order; the answer is the same object until another look-up has ended."""
        reader = log.reader
        assert reader.partitions(log.name) is None
        reader.refresh(log.name)
        found: Mapping[Partition, Broker] = at_last(lambda: reader.partitions(log.name))
        assert list(found) == [at(log, 0), at(log, 1)]
        assert reader.partitions(log.name) is found
        reader.refresh(log.name)
        again = at_last(lambda: other_than(found, reader.partitions(log.name)))
        assert again == found

    def test_an_offset_is_looked_up_anew_once_it_was_handed_out(self, log: Log) -> None:
        """The beginning and the end."""
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

    def test_it_reads_from_the_offset_that_it_is_given(self, log: Log) -> None:
        """And no more at once than is asked for."""
        log.write(0, 10)
        log.reader.assign(at(log, 0), 4)
        first = at_last(lambda: log.reader.read(2))
        assert [message.offset() for message in first] == [4, 5][: len(first)]
        assert offsets(log, 6 - len(first)) == [4, 5, 6, 7, 8, 9][len(first) :]

    def test_a_partition_that_is_assigned_again_starts_anew(self, log: Log) -> None:
        """Nothing that was fetched for the old position comes after it."""
        log.write(0, 100)
        log.reader.assign(at(log, 0), 0)
        assert offsets(log, 10) == list(range(10))
        log.reader.assign(at(log, 0), 90)
        assert offsets(log, 10) == list(range(90, 100))
        log.reader.assign(at(log, 0), 20)
        assert offsets(log, 80) == list(range(20, 100))

    def test_a_partition_that_is_not_assigned_is_not_read(self, log: Log) -> None:
        """Before and after; a second `unassign` is none."""
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

    def test_a_paused_partition_keeps_its_place(self, log: Log) -> None:
        """Nothing comes while it is paused, also of what had been fetched, and nothing is missing after."""
        log.write(0, 10)
        log.reader.assign(at(log, 0), 0)
        log.reader.assign(at(log, 1), 0)
        assert offsets(log, 4) == [0, 1, 2, 3]
        log.reader.pause(at(log, 0))
        log.write(1, 1)
        assert read(log, 1) == [(1, 0)]
        log.reader.resume(at(log, 0))
        assert offsets(log, 6) == [4, 5, 6, 7, 8, 9]

    def test_a_pause_ends_with_the_assignment(self, log: Log) -> None:
        """Given up while it was paused, and taken back, a partition is read: librdkafka's own pause would last for ever."""
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

    def test_a_pause_just_before_the_end_of_an_assignment(self, log: Log) -> None:
        """Before anything was fetched: many times, as clients do this on threads of their own."""
        log.write(0, 3)
        for _ in range(20):
            log.reader.assign(at(log, 0), 0)
            log.reader.pause(at(log, 0))
            log.reader.unassign(at(log, 0))
        log.reader.assign(at(log, 0), 1)
        assert offsets(log, 2) == [1, 2]

    def test_an_offset_that_has_expired_is_told_and_nothing_is_read(self, log: Log) -> None:
        """Until the partition is assigned anew: nobody but the spout decides where to go on."""
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

    def test_an_offset_beyond_the_end_is_told(self, log: Log) -> None:
        """As of a topic that was made anew. An offset right at the end is none of these."""
        log.write(0, 5)
        log.reader.assign(at(log, 0), 77)
        assert at_last(partial(out_of_range, log)).partition == at(log, 0)
        log.reader.assign(at(log, 0), 5)
        log.write(0, 1)
        assert offsets(log, 1) == [5]
        assert list(log.reader.faults()) == []

    @pytest.mark.parametrize("count", [1, 2, 37])
    def test_what_cannot_be_decoded_is_told_and_nothing_behind_it_is_read(
        self, log: Log, count: int
    ) -> None:
        """To its last offset, after all that is before it, and not again; until the partition is assigned anew."""
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

    def test_of_two_that_cannot_be_decoded_the_second_is_told_when_the_first_is_behind(
        self, log: Log
    ) -> None:
        """They lie side by side, and the second is the last that the partition has."""
        log.write_undecodable(0, 4)
        log.write_undecodable(0, 3)
        log.reader.assign(at(log, 0), 0)
        assert at_last(partial(undecodable, log)).undecodable == (0, 4)
        log.reader.assign(at(log, 0), 4)
        assert at_last(partial(undecodable, log)).undecodable == (4, 7)
        log.reader.assign(at(log, 0), 7)
        log.write(0, 1)
        assert offsets(log, 1) == [7]

    def test_what_cannot_be_decoded_is_all_of_its_batch_wherever_one_begins_to_read(
        self, log: Log
    ) -> None:
        """And again after the partition was given up."""
        log.write_undecodable(0, 9)
        for begin in (5, 8, 0):
            log.reader.assign(at(log, 0), begin)
            assert at_last(partial(undecodable, log)).undecodable == (0, 9)
            log.reader.unassign(at(log, 0))

    def test_the_end_is_known_once_something_was_read(self, log: Log) -> None:
        """Without asking."""
        log.write(0, 5)
        assert log.reader.end_offset(at(log, 0)) is None
        log.reader.assign(at(log, 0), 0)
        offsets(log, 5)
        assert log.reader.end_offset(at(log, 0)) == 5


def at(log: Log, partition: int) -> Partition:
    """A partition of the topic."""
    return Partition(log.name, partition)


def at_last(ask: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Asks until there is an answer that is not None and not empty."""
    deadline = time.monotonic() + timeout
    while (found := ask()) is None or found == []:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.002)
    return found


def other_than(known: T, found: T) -> T | None:
    return None if found is known else found


def read(log: Log, count: int) -> list[tuple[int, int]]:
    """The next messages: partition and offset."""
    got: list[tuple[int, int]] = []
    while len(got) < count:
        got += [
            (m.partition(), m.offset()) for m in at_last(partial(log.reader.read, count - len(got)))
        ]
    return got


def offsets(log: Log, count: int) -> list[int]:
    """The offsets of the next messages, all of one partition."""
    found = read(log, count)
    assert len({partition for partition, _ in found}) <= 1, found
    return [offset for _, offset in found]


def undecodable(log: Log) -> SourceFault | None:
    """A fault of that kind."""
    log.reader.read(1)
    return next((fault for fault in log.reader.faults() if fault.undecodable is not None), None)


def out_of_range(log: Log) -> SourceFault | None:
    """A fault of that kind."""
    log.reader.read(1)
    return next((fault for fault in log.reader.faults() if fault.out_of_range), None)
