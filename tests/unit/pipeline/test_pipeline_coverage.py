"""Level 0 of the audit: offsets that are accounted for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kstorm_pipeline.audit.coverage import CoverageAccount, FinishedRange, Intervals, SkippedRange

NUMBERS = st.integers(0, 30)
PAIRS = st.tuples(NUMBERS, NUMBERS)


@given(st.lists(st.tuples(st.booleans(), PAIRS), max_size=20), PAIRS)
def test_intervals_behave_like_a_set_of_numbers(
    steps: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    """They are kept as few disjoint intervals, in order."""
    intervals, plain = Intervals(), set[int]()
    for adds, (start, end) in steps:
        if adds:
            intervals.add(start, end)
            plain |= set(range(start, end))
        else:
            intervals.remove(start, end)
            plain -= set(range(start, end))
    found = list(intervals)
    assert {number for start, end in found for number in range(start, end)} == plain
    assert all(start < end for start, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    assert len(intervals) == len(plain)
    assert {number for number in range(31) if number in intervals} == plain
    wanted = set(range(*asked))
    assert {number for run in intervals.missing(*asked) for number in range(*run)} == wanted - plain
    assert {number for run in intervals.within(*asked) for number in range(*run)} == wanted & plain


def test_overlapping_ranges_leave_no_gap() -> None:
    """Ranges overlap after a crash. Offsets after the stored one are not due."""
    account = CoverageAccount.of(
        [FinishedRange(0, 10), FinishedRange(10, 20), FinishedRange(15, 30)]
    )
    assert account.gaps(0, 100, 30) == []
    assert account.gaps(0, 100, 25) == []
    assert account.gaps(5, 12, 30) == []


def test_stored_offset_in_no_range_is_a_gap() -> None:
    """Between two ranges, before the first, and after the last."""
    account = CoverageAccount.of([FinishedRange(5, 10), FinishedRange(12, 20)])
    assert account.gaps(0, 100, 23) == [(0, 5), (10, 12), (20, 23)]
    assert account.gaps(0, 100, None) == [(0, 5), (10, 12)]
    assert account.gaps(6, 11, 23) == [(10, 11)]


def test_step_back_invalidates_later_outcomes() -> None:
    first = FinishedRange(
        0, 20, dead=((3, 5), (11, 12)), empty=((12, 14),), skipped=(SkippedRange(15, 17, "why"),)
    )
    account = CoverageAccount.of([first, FinishedRange(20, 10), FinishedRange(10, 13)])
    assert account.gaps(0, 20, 20) == [(13, 20)]
    assert (list(account.dead), list(account.empty), account.skipped) == ([(3, 5)], [], [])
    assert account.ranges == [FinishedRange(10, 13)]
    assert (
        CoverageAccount.of([first, FinishedRange(20, 10), FinishedRange(10, 20)]).gaps(0, 20, 20)
        == []
    )
