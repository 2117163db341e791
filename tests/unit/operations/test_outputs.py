"""The comparison of two outputs, without a broker."""

import pytest

from kstorm.operations.migration.outputs import (
    Difference,
    Record,
    collect,
    count_kinds,
    differences,
)


def compare(storm: list[Record], kstorm: list[Record], **how: bool) -> list[Difference]:
    return list(differences(collect(storm, **how), collect(kstorm, **how)))  # type: ignore[arg-type]


def test_same_records_in_another_order_are_equal() -> None:
    records: list[Record] = [(b"a", b"1"), (b"a", b"2"), (b"b", None), (None, b"x")]
    assert compare(records, records[::-1]) == []


def test_missing_extra_and_differing_keys() -> None:
    """A key that only Storm wrote is missing, and one that only kstorm wrote is extra."""
    found = compare(
        [(b"a", b"1"), (b"b", b"1"), (b"b", b"2"), (None, b"x")],
        [(b"b", b"1"), (b"b", b"3"), (b"c", b"1"), (None, b"x")],
    )
    assert found == [
        Difference("a", "missing", storm=1, kstorm=0, unequal=1),
        Difference("b", "differs", storm=2, kstorm=2, unequal=2),
        Difference("c", "extra", storm=0, kstorm=1, unequal=1),
    ]
    assert count_kinds(found) == {"missing": 1, "extra": 1, "differs": 1}


def test_repetition_is_a_difference_unless_records_count_once() -> None:
    storm: list[Record] = [(b"a", b"1")]
    assert compare(storm, storm * 2) == [Difference("a", "differs", 1, 2, 1)]
    assert compare(storm, storm * 2, once=True) == []
    assert compare(storm, [(b"a", b"2"), *storm], once=True) == [
        Difference("a", "differs", 1, 2, 1)
    ]


def test_last_value_of_each_key() -> None:
    """Running counts may have another history."""
    storm: list[Record] = [(b"a", b"1"), (b"a", b"2")]
    assert compare(storm, [(b"a", b"7"), (b"a", b"2")], only_last=True) == []
    assert compare(storm, [(b"a", b"2"), (b"a", b"1")], only_last=True) == [
        Difference("a", "differs", 1, 1, 2)
    ]


@pytest.mark.parametrize(
    ("java", "python", "same"),
    [
        (b'{"b": 1, "a": [1.0]}', b'{"a":[1.0],"b":1}', True),
        (b'{"a": 1}', b'{"a": 2}', False),
        (b"not json", b"not json", True),
        (b"not json", b"no json", False),
    ],
)
def test_values_as_json(java: bytes, python: bytes, same: bool) -> None:
    assert (compare([(b"a", java)], [(b"a", python)], as_json=True) == []) is same


def test_only_wanted_keys_are_compared() -> None:
    found = collect(
        [(b"eu-1", b"x"), (b"us-1", b"x"), (None, b"x")], wanted=lambda k: k[:2] == b"eu"
    )
    assert (found.records, list(found.keys)) == (1, [b"eu-1"])
