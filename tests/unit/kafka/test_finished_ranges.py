"""The outcomes of offsets: counted as a remainder, kept until confirmed, and without gaps."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kstorm.errors import FrameError
from kstorm.kafka import finished_ranges
from kstorm.kafka.finished_ranges import (
    CLAIMED,
    COMMITTED,
    FinishedRange,
    OffsetOutcomes,
    Skipped,
    decode_range,
    moved_range,
)


def until(outcomes: OffsetOutcomes, end: int) -> FinishedRange:
    found = outcomes.until(end)
    assert found is not None
    return found


def test_offsets_without_another_outcome_are_acked() -> None:
    outcomes = OffsetOutcomes(10)
    outcomes.gap(12, 15)
    outcomes.empty(16)
    outcomes.dead(11)
    outcomes.dead(17)
    outcomes.retried(18, 3)
    found = until(outcomes, 20)
    assert found.n == {"acked": 4, "absent": 3, "empty": 1, "dead": 2}
    assert (found.start, found.end) == (10, 20)
    assert (found.dead, found.empty, found.retried) == (
        [(11, 12), (17, 18)],
        [(16, 17)],
        [(18, 19, 3)],
    )


def test_a_range_counts_what_is_below_its_end() -> None:
    """Messages finish out of order. Later offsets are in the next ranges, and no offset is in two."""
    outcomes = OffsetOutcomes(0)
    for offset in (1, 5, 7):
        outcomes.empty(offset)
    outcomes.retried(5, 2)
    outcomes.gap(8, 12)
    assert until(outcomes, 5).n == {"acked": 4, "empty": 1}
    outcomes.confirmed(5)
    assert until(outcomes, 10).n == {"acked": 1, "empty": 2, "absent": 2}
    assert until(outcomes, 10).retried == [(5, 6, 2)]
    outcomes.confirmed(10)
    assert until(outcomes, 13).n == {"acked": 1, "absent": 2}


def test_unconfirmed_range_is_repeated() -> None:
    """The repeated range also has newly finished offsets."""
    outcomes = OffsetOutcomes(0)
    outcomes.dead(1)
    assert until(outcomes, 2) == until(outcomes, 2)
    outcomes.dead(2)
    assert (until(outcomes, 3).start, until(outcomes, 3).dead) == (0, [(1, 3)])


def test_no_range_without_progress() -> None:
    """A step back gives no range either, such as a claimed range that is given back."""
    assert OffsetOutcomes(4).until(4) is None
    assert OffsetOutcomes(4).until(3) is None


def test_skipped_offsets_are_neither_absent_nor_acked() -> None:
    """Skipped offsets have no message. Absent offsets next to them are still counted as absent."""
    outcomes = OffsetOutcomes(0)
    outcomes.skip(10, 20, "expired")
    outcomes.gap(5, 25)
    found = until(outcomes, 30)
    assert found.n == {"acked": 10, "absent": 10, "skipped": 10}
    assert found.skipped == [Skipped(10, 20, "expired")]
    assert until(outcomes, 15).skipped == [Skipped(10, 15, "expired")]
    outcomes.confirmed(15)
    assert until(outcomes, 30).skipped == [Skipped(15, 20, "expired")]


def test_without_tracking_it_is_only_claimed() -> None:
    """Observed outcomes such as empty messages are still recorded."""
    outcomes = OffsetOutcomes(0, rest=CLAIMED)
    outcomes.empty(1)
    assert until(outcomes, 3).n == {"claimed": 2, "empty": 1}


def test_claimed_offsets_have_no_other_outcome() -> None:
    outcomes = OffsetOutcomes(0, rest=CLAIMED, claims=True)
    assert until(outcomes, 10).n == {"claimed": 10}
    outcomes.confirmed(10)
    outcomes.gap(2, 4)
    outcomes.empty(5)
    outcomes.dead(12)
    assert until(outcomes, 20).n == {"claimed": 10}


def test_offsets_of_an_earlier_run_are_committed() -> None:
    """With exactly once, the earlier run did not see the end of its trees.

    Without ackers, no run sees the end of a tree.
    """
    assert until(OffsetOutcomes(3, 9), 12).n == {"acked": 3, "committed": 6}
    untracked = OffsetOutcomes(3, 9, rest=COMMITTED)
    untracked.empty(10)
    assert until(untracked, 12).n == {"committed": 8, "empty": 1}


def test_moved_range_has_operator_and_reason() -> None:
    forth, back = moved_range(3, 9, "reset", "anna"), moved_range(9, 3, "reset", "anna")
    assert forth is not None
    assert (forth.n, forth.skipped) == ({"skipped": 6}, [Skipped(3, 9, "reset", "anna")])
    assert back is not None
    assert (back.n, back.skipped) == ({}, [Skipped(9, 3, "reset", "anna")])
    assert moved_range(3, 3, "reset") is None


@pytest.mark.parametrize(
    ("to", "counts", "skipped"),
    [
        (12, {"committed": 6, "skipped": 3}, [(9, 12)]),
        (9, {"committed": 6}, []),
        (7, {"committed": 4}, [(9, 7)]),
        (3, {}, [(9, 3)]),
        (1, {}, [(9, 1)]),
    ],
)
def test_a_move_of_a_position_skips_nothing_that_was_committed(
    to: int, counts: dict[str, int], skipped: list[tuple[int, int]]
) -> None:
    """With exactly once, 3 is stored, and the offsets before 9 were committed.

    No range covers the offsets in between yet.
    """
    found = moved_range(3, to, "reset", position=9)
    assert found is not None
    assert (found.start, found.end, found.n) == (3, to, counts)
    assert [(skip.start, skip.end) for skip in found.skipped] == skipped


def test_range_has_its_earliest_time_of_emit() -> None:
    """A search for its tuples starts at this time."""
    outcomes = OffsetOutcomes(0, now=100)
    outcomes.begin(0, 110)
    outcomes.begin(5, 120)
    outcomes.begin(5, 130)
    outcomes.begin(9, 140)
    assert until(outcomes, 4).since == 110
    outcomes.confirmed(4)
    assert until(outcomes, 9).since == 110, "4 was emitted before 5"
    outcomes.confirmed(5)
    assert until(outcomes, 9).since == 130
    outcomes.confirmed(20)
    assert until(outcomes, 21).since == 140


def test_all_dead_letters_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may need several ranges. Adjacent ones are a single entry."""
    monkeypatch.setattr(finished_ranges, "MOST_DEAD", 2)
    outcomes = OffsetOutcomes(0)
    for offset in (1, 2, 3, 5, 7, 9):
        outcomes.dead(offset)
    ranges = []
    while outcomes.start < 12:
        ranges.append(until(outcomes, outcomes.most(12)))
        outcomes.confirmed(ranges[-1].end)
    assert [found.dead for found in ranges] == [[(1, 4), (5, 6)], [(7, 8), (9, 10)]]
    assert [found.n["dead"] for found in ranges] == [4, 2]


def test_confirmed_range_frees_its_outcomes() -> None:
    """Only unconfirmed outcomes take memory."""
    outcomes = OffsetOutcomes(0)
    for offset in range(0, 1000, 4):
        outcomes.gap(offset, offset + 1)
        outcomes.empty(offset + 1)
        outcomes.dead(offset + 2)
        outcomes.retried(offset + 3, 2)
        outcomes.begin(offset, offset)
    outcomes.skip(900, 1000, "why")
    outcomes.confirmed(1000)
    kept = [outcomes._absent, outcomes._empty, outcomes._dead, outcomes._retried, outcomes._skipped]
    assert not any(kept)
    assert len(outcomes._begun) == 1


def test_the_record() -> None:
    """It is plain JSON. Equal ranges have equal keys, and different ranges have different keys."""
    outcomes = OffsetOutcomes(3)
    outcomes.dead(4)
    found = replace(until(outcomes, 6), partition=0)
    assert (
        found.encode()
        == b'{"v":1,"partition":0,"from":3,"to":6,"n":{"acked":2,"dead":1},"dead":[[4,5]]}'
    )
    assert decode_range(found.encode()) == found
    assert found.key == b"//0/3-6"
    assert until(outcomes, 7).key != found.key


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\xff", b'{"v":2,"from":0,"to":1,"n":{}}', b"[" * 100_000]
)
def test_invalid_record_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError, match="finished range"):
        decode_range(data)


KINDS = ("message", "empty", "dead", "absent")


class Life:
    """One run of a spout task: takes messages in order, finishes them in any order, and writes ranges.

    It stores an offset only after its range.
    """

    def __init__(self, log: list[str], stored: int) -> None:
        self.log, self.outcomes = log, OffsetOutcomes(stored)
        self.next = stored
        self.open: list[int] = []

    def take(self) -> None:
        at = self.next
        while at < len(self.log) and self.log[at] == "absent":
            at += 1
        if at == len(self.log):
            return
        if at != self.next:
            self.outcomes.gap(self.next, at)
        self.next = at + 1
        if self.log[at] == "empty":
            self.outcomes.empty(at)
        else:
            self.open.append(at)

    def finish(self, which: int) -> None:
        if self.open:
            offset = self.open.pop(which % len(self.open))
            if self.log[offset] == "dead":
                self.outcomes.dead(offset)

    @property
    def completed(self) -> int:
        return min(self.open, default=self.next)


def run(
    log: list[str], acts: list[tuple[str, int]], write: Callable[[FinishedRange], None]
) -> tuple[int, int]:
    """Returns the finally stored offset, and the highest end of a confirmed range."""
    stored, life = 0, Life(log, 0)
    for act, number in acts:
        if act == "take":
            life.take()
        elif act == "finish":
            life.finish(number)
        elif act == "crash":
            life = Life(log, stored)
        else:
            found = life.outcomes.until(life.completed)
            if found is None or act == "refused":
                continue
            write(found)
            if act == "reported":
                life.outcomes.confirmed(found.end)
                stored = found.end
    return stored, life.completed


@given(
    st.lists(st.sampled_from(KINDS), max_size=40),
    st.lists(
        st.tuples(
            st.sampled_from(
                ["take"] * 4
                + ["finish"] * 4
                + ["reported", "reported", "arrives", "refused", "crash"]
            ),
            st.integers(0, 5),
        ),
        max_size=120,
    ),
)
def test_no_gap_and_no_wrong_count(log: list[str], acts: list[tuple[str, int]]) -> None:
    """This holds for any order, crashes, refused records and lost confirmations."""
    ranges: list[FinishedRange] = []
    stored, _ = run(log, acts, ranges.append)
    covered = {offset for found in ranges for offset in range(found.start, found.end)}
    assert set(range(stored)) <= covered
    for found in ranges:
        kinds = log[found.start : found.end]
        expected = {
            "acked": kinds.count("message"),
            **{kind: kinds.count(kind) for kind in KINDS[1:]},
        }
        assert found.n == {kind: count for kind, count in expected.items() if count}
        assert sum(found.n.values()) == found.end - found.start
        assert {at for first, end in found.dead for at in range(first, end)} == {
            at for at in range(found.start, found.end) if log[at] == "dead"
        }
