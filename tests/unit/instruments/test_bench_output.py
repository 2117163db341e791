"""The benchmark finds words that a contestant lost, invented or counted twice."""

import pytest

from tests.bench.output import Counts

TRUTH = {"to": 2, "be": 1}
WHOLE = [(b"to", b"1 0", 10), (b"be", b"1 1", 12), (b"to", b"2 1", 11)]


def counts_of(*records: tuple[bytes | None, bytes | None, int]) -> Counts:
    counts = Counts()
    for record in records:
        counts.add(*record)
    return counts


def test_complete_output_is_correct() -> None:
    """The highest counts are the true ones, in any order."""
    verdict = counts_of(*reversed(WHOLE)).compare(TRUTH)
    assert verdict.correct
    assert (verdict.short, verdict.over, verdict.strange) == (0, 0, 0)


@pytest.mark.parametrize("missing", [1, 2])
def test_lost_count_is_short(missing: int) -> None:
    """Either the word is missing, or its last count is too low."""
    records = [record for number, record in enumerate(WHOLE) if number != missing]
    verdict = counts_of(*records).compare(TRUTH)
    assert verdict.short == 1
    assert not verdict.correct


def test_replay_counts_over_and_is_correct() -> None:
    """With at least once, counts may exceed the truth."""
    verdict = counts_of(*WHOLE, (b"to", b"4 1", 13)).compare(TRUTH)
    assert verdict.over == 2
    assert verdict.correct


@pytest.mark.parametrize(
    "record",
    [
        (b"tea", b"1 0", 9),
        (b"to", b"one 0", 9),
        (b"to", b"1", 9),
        (b"to", None, 9),
        (None, b"1 0", 9),
    ],
)
def test_impossible_record_is_strange(record: tuple[bytes | None, bytes | None, int]) -> None:
    """The word is in no sentence, or the value is not a count."""
    verdict = counts_of(*WHOLE, record).compare(TRUTH)
    assert verdict.strange == 1
    assert not verdict.correct


def test_counts_of_batches_have_no_id() -> None:
    """A count with an id is strange there, and one without is complete."""
    counts = Counts(by_batch=True)
    for record in ((b"to", b"2", 1), (b"be", b"1", 2)):
        counts.add(*record)
    assert counts.compare(TRUTH).correct
    counts.add(b"to", b"2 7", 3)
    assert counts.compare(TRUTH).strange == 1
    assert not counts.last_stamp


def test_sentence_ends_with_its_last_count() -> None:
    """The broker's timestamps decide, not the order of reading."""
    assert counts_of(*WHOLE).last_stamp == {0: 10, 1: 12}
