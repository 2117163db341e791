"""The canonical form of keys: equal and different keys, in all their forms."""

import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from itertools import combinations
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.key_hash import stable_hash
from kstorm.errors import EmitError
from kstorm.testing.strategies import values
from kstorm.topology.keys import comparable, key_text, key_values, list_text, original

NAN = float("nan")
OTHER_NAN = -float("inf") + float("inf")
INF = float("inf")
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Number(IntEnum):
    ONE = 1


class Letter(StrEnum):
    A = "a"


class Half(Enum):
    HALF = 0.5
    WHOLE = 2.0


class Pair(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Point:
    x: int
    y: int


SAME: list[list[Any]] = [
    [1, 1.0, Number.ONE],
    [0, 0.0, -0.0],
    [2**53, float(2**53)],
    [2**63, 2.0**63],
    [0.5, Half.HALF],
    [2, Half.WHOLE],
    [1e300],
    [True],
    [False],
    [None],
    [NAN, OTHER_NAN, -NAN],
    [INF],
    [-INF],
    ["a", Letter.A],
    [b"abc", bytearray(b"abc"), memoryview(b"abc")],
    [b64encode(b"abc").decode()],
    ["1", Decimal("1"), Decimal("1.0"), Decimal("1.000"), Decimal("0.1E+1")],
    ["100", Decimal("100"), Decimal("1E+2"), Decimal("100.00")],
    ["-0.05", Decimal("-0.05"), Decimal("-0.0500"), Decimal("-5E-2")],
    ["0", Decimal(0), Decimal("-0"), Decimal("0.00"), Decimal("0E+9")],
    [Decimal("1E+5000"), Decimal("10E+4999")],
    ["NaN", Decimal("NaN")],
    [NOON, NOON.astimezone(timezone(timedelta(hours=5)))],
    ["2026-11-26T12:00:00", datetime(2026, 11, 26, 12)],
    ["2026-11-26T12:00:00Z"],
    ["2026-11-26", date(2026, 11, 26)],
    ["00000000-0000-0000-0000-000000000007", UUID(int=7)],
    [[1, 2], (1, 2.0), Pair(1, 2.0), [1.0, Number.ONE + 1]],
    [[True, 2]],
    [[NAN], (OTHER_NAN,)],
    [["1"], [Decimal("1.0")]],
    [[]],
    [{}],
    [{"x": 1, "y": 2}, {"y": 2.0, "x": 1}, Point(1, 2)],
    [{"x": True, "y": 2}],
    [{1: "a", b"k": [1]}, {b"k": [1.0], 1.0: "a"}],
    [{"1": "a", b"k": [1]}],
    [{Letter.A: 1}, {"a": 1}],
    [{(1, 2): 3}],
    [{"$float": "nan"}],
    [{"$bytes": "YWJj"}],
    [{"$map": [["a", 1]]}],
    [{"$a": 1}],
    [{1, 2, 3}, frozenset({3, 2, 1}), [1, 2, 3]],
    [{"a", 1}, frozenset({1, "a"})],
    ["[1]"],
    ['["a"]'],
    [["a"]],
    ["null"],
    ["\u00e9"],
    ["e\u0301"],  # looks the same: texts are not normalized
    ["a\0"],
    [""],
    [msgspec.msgpack.Ext(5, b"x")],
    [2**64 - 1],
    [-(2**63)],
]


@pytest.mark.parametrize("group", SAME)
def test_one_key_has_one_text_one_task_and_one_group(group: list[Any]) -> None:
    """This holds for keys alone, in compound keys, and within values."""
    for make in (lambda value: [value], lambda value: ["x", value], lambda value: [[value], 1]):
        keys = [make(value) for value in group]
        assert len({key_text(key) for key in keys}) == 1
        assert len({list_text(key) for key in keys}) == 1
        assert len({stable_hash(key) for key in keys}) == 1
    assert len(dict.fromkeys(comparable(group))) == 1


@pytest.mark.parametrize("group", SAME)
def test_a_key_is_the_same_after_its_way_to_another_task(group: list[Any]) -> None:
    """Decimals and sets may arrive in another form. The text of a key stays the same."""
    for value in original(comparable(group)) + [v for v in group[:1] if type(v) is not set]:
        arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
        assert key_text([arrived]) == key_text([value])
        assert stable_hash([arrived]) == stable_hash([value])
        assert comparable([arrived]) == comparable([value])


def test_different_keys_have_different_texts_and_groups() -> None:
    """For example, 1, "1", True and b"1" are different keys."""
    for one, other in combinations(SAME, 2):
        assert key_text(one[:1]) != key_text(other[:1]), (one, other)
        assert list_text(one[:1]) != list_text(other[:1]), (one, other)
        assert len(set(comparable([one[0], other[0]]))) == 2, (one, other)


@pytest.mark.parametrize("group", SAME)
def test_a_text_is_read_as_its_key(group: list[Any]) -> None:
    """So a state returns its keys with their original types."""
    for key in (group[:1], ["x", *group[:1]]):
        found = key_values(key_text(key))
        assert key_text(found) == key_text(key)
        assert stable_hash(found) == stable_hash(key)


@given(values(), values())
def test_forms_of_any_two_values_agree(one: Any, other: Any) -> None:
    """Equal key texts mean equal dict keys and the same task. Parsing a key text gives the key."""
    same = key_text([one]) == key_text([other])
    assert same == (list_text([one]) == list_text([other]))
    assert same == (len(set(comparable([one, other]))) == 1)
    assert not same or stable_hash([one]) == stable_hash([other])
    assert key_text(key_values(key_text([one]))) == key_text([one])
    assert key_text(comparable([one, other])) == key_text([one, other])
    assert "\0" not in key_text([one])


@given(st.lists(st.integers() | st.floats() | st.booleans() | st.text() | st.none()))
def test_a_column_is_grouped_as_its_texts(column: list[Any]) -> None:
    """This includes NaN, which a dict cannot find again."""
    column = [each for each in column if type(each) is not int or -(2**63) <= each < 2**64]
    assert len(set(comparable(column))) == len({key_text([each]) for each in column})


def test_key_texts_of_0_1_stay_readable() -> None:
    """The forms of kstorm 0.1 cover text, integers, fractions, booleans, None, and lists of these."""
    assert key_text(["the"]) == "the"
    assert key_text(["[the"]) == '["[the"]'
    assert key_text([1]) == "[1]"
    assert key_text([1.5]) == "[1.5]"
    assert key_text([True]) == "[true]"
    assert key_text([None]) == "[null]"
    assert key_text(["a", 1, None]) == '["a",1,null]'
    assert key_text([]) == "[]"
    assert list_text(["the"]) == '["the"]'
    assert key_values("the") == ["the"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (int, "unsupported"),
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (np.int64(1), "unsupported"),
        (np.float64(1), "unsupported"),
        ([np.int64(1)], "unsupported"),
        (1j, "unsupported"),
        (range(3), "unsupported"),
        ({"a": 2**70}, "64 bits"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_unencodable_value_is_refused_as_a_key(value: Any, why: str) -> None:
    """The error has the value, the reason and the remedy."""
    for refused in (key_text, list_text):
        with pytest.raises(TypeError, match=f"cannot be a key: .*{why}"):
            refused([value])
    with pytest.raises(EmitError, match="cannot group by"):
        stable_hash([value])
    if type(value) is not int:
        with pytest.raises(TypeError, match="make it text, a number"):
            comparable([value])


@pytest.mark.parametrize("text", ["[", "[1", '[{"$time":"x"}]', '[{"$bytes":"?"}]'])
def test_invalid_key_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        key_values(text)


def test_an_endless_key_is_refused() -> None:
    nested: list[Any] = []
    nested.append(nested)
    for refused in (key_text, comparable):
        with pytest.raises(TypeError, match="cannot be a key"):
            refused([nested])
