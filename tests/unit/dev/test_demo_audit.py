"""The audit finds lost, wrong and repeated words."""

import json

import pytest

from kstorm.dev.demo.audit import Produced, SinkRecord, audit

SENTENCES = [Produced("to be or not to be", 0, 7, 1000), Produced("be quick", 3, 0, 1010)]


def record(word: str, count: int, place: str, timestamp: int = 1500) -> SinkRecord:
    """Return a record in the word count's format."""
    return SinkRecord(
        json.dumps({"word": word, "count": count, "id": place, "emitted_at": 1}).encode(), timestamp
    )


def whole_output() -> list[SinkRecord]:
    """Return the sink topic after everything was counted once."""
    counts: dict[str, int] = {}
    records: list[SinkRecord] = []
    for message in SENTENCES:
        for position, word in enumerate(message.text.split()):
            counts[word] = counts.get(word, 0) + 1
            place = f"lines-{message.partition}-{message.offset}-{position}"
            records.append(record(word, counts[word], place, 1100 + len(records)))
    return records


def test_complete_output_has_no_faults() -> None:
    """Nothing is lost, short, over or repeated."""
    found = audit(SENTENCES, whole_output())
    assert not found.lost
    assert not found.short
    assert not found.over
    assert not found.foreign
    assert (found.records, found.repeated) == (8, 0)
    assert found.truth == {"to": 2, "be": 3, "or": 1, "not": 1, "quick": 1}


@pytest.mark.parametrize("missing", range(8))
def test_message_is_lost_if_any_word_is_missing(missing: int) -> None:
    """One missing id is enough."""
    records = whole_output()
    del records[missing]
    assert audit(SENTENCES, records).lost == [SENTENCES[0] if missing < 6 else SENTENCES[1]]


def test_word_with_a_low_highest_count_is_short() -> None:
    """All ids can be present although a count is lost."""
    records = [
        record("be", 2, "lines-3-0-0") if b'"count": 3' in each.value else each
        for each in whole_output()
    ]
    found = audit(SENTENCES, records)
    assert not found.lost
    assert found.short == {"be": 2}


def test_missing_word_is_short() -> None:
    """A word without records has the count 0."""
    assert audit(SENTENCES, whole_output()[:-1]).short == {"quick": 0}


def test_replay_is_repeated_and_counts_over() -> None:
    """A sentence that was processed twice loses nothing, but its counts are too high."""
    found = audit(
        SENTENCES,
        [*whole_output(), record("be", 4, "lines-3-0-0"), record("quick", 2, "lines-3-0-1")],
    )
    assert not found.lost
    assert not found.short
    assert found.over == {"be": 1, "quick": 1}
    assert found.repeated == 2


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b'{"word": "be", "count": 1}',
        record("be", 1, "3-0").value,
        record("be", 1, "3-x-0").value,
        record("be", 1, "lines-4-0-0").value,
        record("be", 1, "lines-3-0-2").value,
        record("be", 1, "3-0--1").value,
        record("quick", 1, "lines-3-0-0").value,
    ],
)
def test_impossible_record_is_foreign(value: bytes) -> None:
    """It is unreadable, or names a position with another word. It does not count."""
    found = audit(SENTENCES, [*whole_output(), SinkRecord(value, 1)])
    assert found.foreign == [value]
    assert not found.over


def test_latency_ends_with_the_first_copy_of_the_last_word() -> None:
    """A repetition adds no latency. An incomplete sentence has none."""
    records = [*whole_output(), record("quick", 2, "lines-3-0-1", 9000)]
    assert audit(SENTENCES, records).latencies_ms == [1107 - 1010, 1105 - 1000]
    assert audit(SENTENCES, records[:4]).latencies_ms == []


def test_latency_quantiles_are_exact() -> None:
    """The median of 1 to 100 is 51, and 99 % are at most 100."""
    produced = [Produced("a", 0, number, 0) for number in range(100)]
    found = audit(produced, [record("a", n + 1, f"lines-0-{n}-0", n + 1) for n in range(100)])
    assert (found.latency_ms(0.5), found.latency_ms(0.99)) == (51, 100)
    assert audit([], []).latency_ms(0.5) is None
