"""The state of an exactly-once task: the changes of a failed execution are undone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.exactly_once import UndoableState

LONG = "ä" * 500
"""A text that has a weight and is immutable."""


class Table:
    """A changelog's local copy, and the state on top of it."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.state = UndoableState(self.rows.get, lambda start: sorted(self.rows.items()))

    def keep(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        """Commits the changes."""
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.state.stored()

    def fail(self) -> None:
        """Fails the present execution, and starts another."""
        self.state.take_back()
        self.state.begin()


def table(**values: Any) -> Table:
    """Builds a state with these stored values, none of which is in memory."""
    first = Table()
    for key, value in values.items():
        first.state.put(key, value)
    first.keep(first.state.take_changes())
    again = Table()
    again.rows.update(first.rows)
    again.state.begin()
    return again


def weight(state: UndoableState) -> int:
    """Returns the recorded weight of the cache."""
    return state._weight


def test_a_put_that_is_refused_leaves_nothing_to_take_back() -> None:
    """A bolt may catch the error of `put` and continue. A later failure restores the earlier state."""
    made = table(a=1)
    before = weight(made.state)
    made.state.get("a")
    weighed = weight(made.state)
    for key in ("a", "b"):
        with pytest.raises(TypeError, match="cannot be stored"):
            made.state.put(key, object())
    made.state.take_back()
    assert dict(made.state.items()) == {"a": 1}
    assert (made.state.take_changes(), weight(made.state)) == ([], weighed)
    assert weighed > before


def test_a_put_is_taken_back() -> None:
    """The key has its old value or none, and nothing is stored."""
    made = table(a=1)
    made.state.put("a", 2)
    made.state.put("a", 3)
    made.state.put("b", 4)
    made.state.take_back()
    assert (made.state.get("a"), made.state.get("b")) == (1, None)
    assert made.state.take_changes() == []


def test_a_delete_is_taken_back() -> None:
    """The key returns, whether it was stored or only put."""
    made = table(a=1)
    made.state.put("b", 2)
    made.state.begin()
    assert (made.state.delete("a"), made.state.delete("b"), made.state.delete("never")) == (
        1,
        2,
        None,
    )
    made.state.take_back()
    assert dict(made.state.items()) == {"a": 1, "b": 2}
    assert made.state.take_changes() == [(b"b", b"\x02")]


def test_discarded_key_returns_after_an_undo() -> None:
    """The value may be stored, put or missing. A later discard by another execution stays."""
    made = table(a=[1])
    made.state.put("b", 2)
    made.state.begin()
    made.state._load = refuse
    for key in ("a", "b", "never"):
        made.state.discard(key)
    assert made.state.get("a") is None
    made.state._load = made.rows.get
    made.state.take_back()
    assert dict(made.state.items()) == {"a": [1], "b": 2}
    made.state.begin()
    made.state.discard("a")
    made.state.begin()
    made.state.take_back()
    assert dict(made.state.items()) == {"b": 2}
    assert made.state.take_changes() == [(b"b", b"\x02"), (b"a", None)]


def refuse(key: bytes) -> bytes | None:
    """Replaces a read from disk."""
    raise AssertionError(key)


def test_changes_of_earlier_executions_stay() -> None:
    """`begin` keeps earlier changes. Only the present execution can be undone."""
    made = table()
    made.state.put("a", 1)
    made.state.begin()
    made.state.put("a", 2)
    made.state.take_back()
    made.state.take_back()
    assert made.state.take_changes() == [(b"a", b"\x01")]


@pytest.mark.parametrize("stored", [True, False])
def test_a_value_that_was_changed_in_place_is_as_it_was(stored: bool) -> None:
    """The value is restored whether it was stored or only put, and also if the bolt put it again."""
    made = table(a=[1], b=[1]) if stored else table()
    if not stored:
        made.state.put("a", [1])
        made.state.put("b", [1])
        made.state.begin()
    made.state.get("a").append(2)
    changed = made.state.get("b")
    changed.append(2)
    made.state.put("b", changed)
    made.state.take_back()
    assert (made.state.get("a"), made.state.get("b")) == ([1], [1])


def test_a_value_on_its_way_to_the_changelog_is_as_it_was_cut() -> None:
    """The local copy does not have it yet. A failed execution restores the value of the epoch."""
    made = table()
    made.state.put("a", [1])
    made.state.put("b", LONG)
    changes = made.state.take_changes()
    made.state.begin()
    made.state.get("a").append(2)
    made.state.put("a", [3])
    made.state.put("b", "short")
    made.fail()
    assert (made.state.get("a"), made.state.get("b")) == ([1], LONG)
    assert made.state.take_changes() == []
    made.keep(changes)
    assert (made.state.get("a"), made.state.get("b")) == ([1], LONG)


def test_unstorable_value_is_refused_without_a_change() -> None:
    """The old value stays, whether or not the bolt catches the error."""
    made = table(a=1)
    with pytest.raises(TypeError, match="cannot be stored"):
        made.state.put("a", object())
    assert made.state.get("a") == 1
    made.state.take_back()
    assert made.state.get("a") == 1
    assert made.state.take_changes() == []


@pytest.mark.parametrize("value", [LONG, 1, [LONG], None])
@pytest.mark.parametrize("following", ["short", LONG + LONG, [1]])
def test_a_failed_execution_leaves_the_weight_of_the_cache(value: Any, following: Any) -> None:
    """Otherwise the cache would exceed its limit, or drop everything at each turn."""
    made = table(a=value)
    made.state.get("a")
    if isinstance(value, list):
        made.state.put("a", value)
        made.state.begin()
    before = weight(made.state)
    for _ in range(3):
        made.state.put("a", following)
        made.state.delete("a")
        made.fail()
    assert weight(made.state) == before


KEYS = ["a", "b", "c"]
VALUES = st.one_of(
    st.integers(0, 9),
    st.none(),
    st.just(LONG),
    st.lists(st.integers(0, 9), max_size=3),
    st.just({"of": [LONG]}),
)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), VALUES),
    st.tuples(
        st.sampled_from(["get", "delete", "change", "change and put"]), st.sampled_from(KEYS)
    ),
    st.tuples(st.sampled_from(["begin", "take back", "cut", "stored"])),
)


class Model:
    """A model of the state in stored form: the committed values, and those before the execution."""

    def __init__(self) -> None:
        self.now: dict[str, Any] = {}
        self.then: dict[str, Any] = {}


def _changed(value: Any) -> Any:
    if isinstance(value, list):
        value.append(7)
    return value


@given(st.lists(STEPS, max_size=40))
def test_state_matches_a_copied_dict(steps: list[tuple[Any, ...]]) -> None:
    """Compares random puts, deletes, changes in place, cuts and commits with copied dicts.

    `take_back` restores the copy, the stored rows exclude undone changes, and the weight covers the
    rows in memory.
    """
    made, model, cut = Table(), Model(), list[tuple[bytes, bytes | None]]()
    state = made.state
    copied = _copy(model.now)
    state.begin()
    for step in steps:
        match step:
            case ("put", key, value):
                state.put(key, _copy(value))
                model.now[key] = _copy(value)
            case ("get", key):
                assert state.get(key, "none") == model.now.get(key, "none")
            case ("delete", key):
                assert state.delete(key) == model.now.pop(key, None)
            case ("change", key):
                _changed(state.get(key))  # the execution fails
                state.take_back()
                state.begin()
                model.now = _copy(copied)
            case ("change and put", key) if key in model.now:
                state.put(key, _changed(state.get(key)))
                _changed(model.now[key])
            case ("begin",):
                state.begin()
                copied = _copy(model.now)
            case ("take back",):
                state.take_back()
                state.begin()
                model.now = _copy(copied)
            case ("cut",) if not cut:  # cuts are between two executions, and serial
                state.begin()
                copied = _copy(model.now)
                cut = state.take_changes()
            case ("stored",):
                made.keep(cut)
                cut = []
        assert dict(state.items()) == model.now
        assert weight(state) == sum(240 + len(key) for key in state._cache) + sum(
            state._weights.values()
        )
    made.keep(cut)
    made.keep(state.take_changes())
    stored = Table()
    stored.rows.update(made.rows)
    assert dict(stored.state.items()) == model.now


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return list(value) if isinstance(value, list) else value


def test_a_range_after_changes_that_were_taken_back() -> None:
    """The sorted keys do not include keys of undone changes."""
    made = table(a=1)
    made.state.put("b", 2)
    assert list(made.state.range()) == [("a", 1), ("b", 2)]
    made.fail()
    made.state.put("c", 3)
    assert list(made.state.range()) == [("a", 1), ("c", 3)]
    made.state.delete("a")
    assert list(made.state.range()) == [("c", 3)]
    made.fail()
    assert list(made.state.range()) == [("a", 1)]
