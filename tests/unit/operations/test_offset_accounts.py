"""The finished ranges of each partition. Gaps are listed, and repeated offsets count once."""

from hypothesis import given
from hypothesis import strategies as st

from kstorm.kafka.finished_ranges import VERSION, FinishedRange, Skipped
from kstorm.operations.offsets.accounts import PartitionAccount, accounts_of


def made(start: int, end: int, partition: int = 0, at: int = 0, **counts: int) -> FinishedRange:
    n = counts or {"acked": max(0, end - start)}
    return FinishedRange(
        v=VERSION, reading="/r", topic="t", partition=partition, start=start, end=end, n=n, at=at
    )


def one(*ranges: FinishedRange) -> PartitionAccount:
    (found,) = accounts_of(ranges)
    return found


def test_adjacent_ranges_leave_no_gap() -> None:
    """They may come in any order."""
    found = one(made(20, 30, at=7), made(10, 20, acked=7, dead=3, at=5))
    assert (found.start, found.until, found.end, found.gaps, found.at) == (10, 30, 30, [], 7)
    assert found.counts == {"acked": 17, "dead": 3}


def test_gaps_are_listed_and_limit_until() -> None:
    """A gap is a run of offsets, given by its first offset and the one after its last."""
    found = one(made(0, 10), made(12, 20), made(25, 30))
    assert (found.gaps, found.until, found.end) == ([(10, 12), (20, 25)], 10, 30)


def test_overlapping_offsets_are_counted_as_twice() -> None:
    """A range that is written again replaces the earlier one, as after compaction."""
    found = one(made(0, 10), made(5, 20), made(5, 20, acked=14, dead=1))
    assert (found.gaps, found.twice, found.counts) == ([], 5, {"acked": 24, "dead": 1})


def test_offset_moved_back_uncovers_later_offsets() -> None:
    """These offsets are uncovered until they are read again. The step names its operator."""
    skip = Skipped(20, 8, "offsets set", "anna@laptop")
    back = FinishedRange(
        v=VERSION, reading="/r", topic="t", partition=0, start=20, end=8, n={}, skipped=[skip]
    )
    found = one(made(0, 10), made(10, 20), back)
    assert (found.end, found.gaps, found.skipped) == (8, [], [skip])
    assert one(made(0, 10), made(10, 20), back, made(9, 12)).gaps == [(8, 9)]


def test_partitions_and_readings_are_separate() -> None:
    """They are sorted, so that the order on a page is stable."""
    assert [
        each.partition for each in accounts_of([made(0, 1, 2), made(0, 1, 0), made(1, 2, 2)])
    ] == [0, 2]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=12))
def test_gaps_are_the_uncovered_offsets(runs: list[tuple[int, int]]) -> None:
    """The sum of the counts is the number of covered offsets plus the repeated ones."""
    found = one(*(made(start, start + length) for start, length in runs))
    covered = {offset for start, length in runs for offset in range(start, start + length)}
    missing = {offset for first, end in found.gaps for offset in range(first, end)}
    assert missing == set(range(found.start, found.end)) - covered
    assert sum(found.counts.values()) == len(covered) + found.twice
