"""Fields and tuples: the access to values."""

from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.topology import SYSTEM_COMPONENT, TICK_STREAM, Fields, Source, Tuple


def test_fields_from_names_or_lists() -> None:
    """Names, lists of names and other fields can be mixed."""
    fields = Fields("a", ["b"], Fields("c"))
    assert list(fields) == ["a", "b", "c"]
    assert len(fields) == 3
    assert "b" in fields
    assert "x" not in fields
    assert fields == Fields(["a", "b", "c"])
    assert hash(fields) == hash(Fields("a", "b", "c"))
    assert fields != Fields("c", "b", "a")
    assert repr(fields) == "Fields('a', 'b', 'c')"


@pytest.mark.parametrize("name", ["", 1, None, ["a", 2]])
def test_invalid_field_name_is_refused(name: Any) -> None:
    """The message shows the invalid name."""
    with pytest.raises(TopologyError, match="is not a field name: use non-empty strings"):
        Fields(name)


def test_a_field_twice() -> None:
    """Each field must have a different name."""
    with pytest.raises(TopologyError, match="the field 'a' is declared twice"):
        Fields("a", "b", "a")


def test_the_position_of_a_field() -> None:
    """The error for an unknown name lists the known ones."""
    assert Fields("a", "b").index("b") == 1
    with pytest.raises(KeyError, match="no field 'c'; this stream has a, b"):
        Fields("a", "b").index("c")
    with pytest.raises(KeyError, match="no fields"):
        Fields().index("c")


def test_fields_by_position_and_a_selection_of_values() -> None:
    """The order is that of the selection, not that of the fields."""
    fields = Fields("a", "b", "c")
    assert (fields[0], fields[-1]) == ("a", "c")
    assert fields.select(["c", "a"], (1, 2, 3)) == [3, 1]
    assert fields.select(Fields("b"), (1, 2, 3)) == fields.select("b", (1, 2, 3)) == [2]
    with pytest.raises(KeyError, match="no field 'x'; this stream has a, b, c"):
        fields.select(["a", "x"], (1, 2, 3))
    with pytest.raises(IndexError):
        fields[3]


def test_looking_values_up() -> None:
    """These are Storm's select, fieldIndex and contains, and a value with a default."""
    tuple = Tuple(
        ["apple", None, 3], Source("split", "default", 4, Fields("word", "kind", "count"))
    )
    assert tuple.select("count", "word") == [3, "apple"]
    assert tuple.select(Fields("count", "word")) == tuple.select(["count"], "word") == [3, "apple"]
    assert tuple.select() == []
    assert tuple.field_index("count") == 2
    assert (tuple.get("word"), tuple.get("wrod"), tuple.get("wrod", "none")) == (
        "apple",
        None,
        "none",
    )
    assert tuple.get("kind", "some") is None
    for look in (tuple.select, tuple.field_index):
        with pytest.raises(KeyError, match="no field 'wrod'; this stream has word, kind, count"):
            look("wrod")
    with pytest.raises(TopologyError, match="'word' is declared twice"):
        tuple.select("word", "word")


def test_values_of_a_tuple() -> None:
    """They are accessible by name, by position, and in order."""
    tuple = Tuple(
        ["apple", 3], Source("split", "default", 4, Fields("word", "count")), root=7, edge=9
    )
    assert (tuple["word"], tuple[1], tuple[-1]) == ("apple", 3, 3)
    assert list(tuple) == ["apple", 3]
    assert len(tuple) == 2
    assert "word" in tuple
    assert "apple" not in tuple
    assert tuple.as_dict() == {"word": "apple", "count": 3}
    assert tuple.fields == Fields("word", "count")
    assert (tuple.source_component, tuple.source_stream, tuple.source_task) == (
        "split",
        "default",
        4,
    )
    assert not tuple.is_tick
    with pytest.raises(KeyError, match="no field 'wrod'"):
        tuple["wrod"]


def test_the_roots_of_a_tuple() -> None:
    """An untracked tuple has none. A tuple with anchors in several trees has several."""
    source = Source("a", "default", 1, Fields("x"))
    assert list(Tuple([1], source).roots()) == []
    assert list(Tuple([1], source, 5, 6).roots()) == [5]
    assert list(Tuple([1], source, 5, 6, {7: 8, 9: 10}).roots()) == [5, 7, 9]


def test_tick_tuples_are_known_by_their_source() -> None:
    """A user's stream cannot imitate it, because its name may not start with an underscore."""
    assert Tuple([5], Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields("rate_secs"))).is_tick
    assert not Tuple([5], Source("clock", TICK_STREAM, 0, Fields("rate_secs"))).is_tick


def test_tuples_are_compared_by_identity() -> None:
    """Two tuples with equal values are different, so that a bolt can hold both in a set."""
    source = Source("a", "default", 1, Fields("x"))
    assert len({Tuple([1], source), Tuple([1], source)}) == 2
