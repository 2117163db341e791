"""The records of an epoch: columns and single records, with a number each."""

import pytest

from kstorm.core.outgoing import BY_KEY, EpochRecords, OutgoingRecord, SinkRecords

FRAME = OutgoingRecord("t.sink", 3, b"frame")
COLUMNS = SinkRecords("counts", ["a", None, b"c"], ["1", b"2", None], None, 7)
WITH_HEADERS = SinkRecords("counts", ["d", "e"], ["4", "5"], [[("part", b"0")], None], 8)
ALL = [
    FRAME,
    OutgoingRecord("counts", BY_KEY, "1", "a", None, 7),
    OutgoingRecord("counts", BY_KEY, b"2", None, None, 7),
    OutgoingRecord("counts", BY_KEY, None, b"c", None, 7),
    FRAME,
    OutgoingRecord("counts", BY_KEY, "4", "d", [("part", b"0")], 8),
    OutgoingRecord("counts", BY_KEY, "5", "e", None, 8),
]


def test_records_in_columns_are_numbered_among_the_others() -> None:
    """Iteration and indexing return the same records."""
    records = EpochRecords([FRAME, COLUMNS, FRAME, WITH_HEADERS])
    assert list(records) == ALL
    assert len(records) == len(ALL)
    assert [records[number] for number in range(len(ALL))] == ALL
    assert records[-1] == ALL[-1]
    assert records[1:3] == ALL[1:3]
    with pytest.raises(IndexError):
        records[len(ALL)]


def test_none_are_none() -> None:
    assert not EpochRecords([])
    assert list(EpochRecords([SinkRecords("counts", [], [], None, 7)])) == []


def test_columns_of_different_lengths_are_refused() -> None:
    """No record is dropped silently."""
    with pytest.raises(ValueError, match="1 keys, 2 values, 2 headers"):
        SinkRecords("counts", ["a"], ["1", "2"], None, 7)
    with pytest.raises(ValueError, match="2 keys, 2 values, 1 headers"):
        SinkRecords("counts", ["a", "b"], ["1", "2"], [None], 7)
