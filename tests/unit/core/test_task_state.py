"""The state of a stateful task: what is read, what is stored, what a checkpoint takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core import state as module
from kstorm.core.state import TaskState


class Table:
    """What is stored, as a changelog would give it back."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.loads = 0

    def load(self, key: bytes) -> bytes | None:
        self.loads += 1
        return self.rows.get(key)

    def checkpoint(self, state: TaskState) -> set[bytes]:
        """Stores what changed; returns the keys."""
        changes = state.take_changes()
        self.write(changes)
        state.stored()
        return {key for key, _ in changes}

    def write(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def state(self) -> TaskState:
        """A new life of the task."""
        return TaskState(self.load, lambda: list(self.rows.items()))


def test_what_is_stored_comes_back() -> None:
    """Values of every kind survive; what was not checkpointed does not."""
    table = Table()
    first = table.state()
    first.put("a", {"n": [1, 2.5, None, "ä", b"\x00"]})
    first.put("b", 1)
    assert table.checkpoint(first) == {b"a", b"b"}
    first.put("b", 2)
    assert first.get("b") == 2
    again = table.state()
    assert again.get("a") == {"n": [1, 2.5, None, "ä", b"\x00"]}
    assert again.get("b") == 1


def test_absent_keys() -> None:
    """The default is given, and not kept; None is a value."""
    state = Table().state()
    assert state.get("a") is None
    assert state.get("a", 0) == 0
    assert state.get("a", 7) == 7
    state.put("a", None)
    assert state.get("a", 7) is None


def test_deleting() -> None:
    """A deleted key is gone at once, and gone from the store with the next checkpoint."""
    table = Table()
    state = table.state()
    state.put("a", 1)
    table.checkpoint(state)
    state.delete("a")
    state.delete("never")
    assert state.get("a", "gone") == "gone"
    assert list(state.items()) == []
    assert table.checkpoint(state) == {b"a", b"never"}
    assert table.rows == {}


def test_a_checkpoint_takes_what_changed_since_the_last() -> None:
    """And nothing else; what changes after it was taken waits for the next."""
    table = Table()
    state = table.state()
    state.put("a", 1)
    state.put("b", 1)
    table.checkpoint(state)
    assert state.take_changes() == []
    state.put("a", 2)
    (change,) = state.take_changes()
    state.put("a", 3)
    state.stored()
    assert change[0] == b"a"
    assert table.checkpoint(state) == {b"a"}
    assert table.state().get("a") == 3


def test_stored_keys_are_loaded_once() -> None:
    """Also those that are not there."""
    table = Table()
    state = table.state()
    for _ in range(3):
        state.get("a")
    assert table.loads == 1


def test_items_are_the_changes_over_what_is_stored() -> None:
    """Stored keys, changed keys and new keys, each once with its latest value."""
    table = Table()
    first = table.state()
    for key in "abc":
        first.put(key, key)
    table.checkpoint(first)
    again = table.state()
    again.put("b", "changed")
    again.delete("c")
    again.put("d", "new")
    assert sorted(again.items()) == [("a", "a"), ("b", "changed"), ("d", "new")]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once stored, keys may leave memory; those with changes that are not stored may not."""
    monkeypatch.setattr(module, "_CACHED_KEYS", 3)
    table = Table()
    state = table.state()
    for key in "abcde":
        state.put(key, key)
    changes = state.take_changes()
    state.put("a", "later")
    table.write(changes)
    state.stored()
    table.loads = 0
    assert state.get("a") == "later"
    assert state.get("b") == "b"
    assert table.loads == 1


@pytest.mark.parametrize("value", [object(), 2**64, 1j, "\ud800"])
def test_a_value_that_cannot_be_stored(value: Any) -> None:
    """The checkpoint says which key it is, and does not forget the others."""
    state = Table().state()
    state.put("good", 1)
    state.put("bad", value)
    for _ in range(2):
        with pytest.raises(TypeError, match="'bad'"):
            state.take_changes()
    state.put("bad", 2)
    assert {key for key, _ in state.take_changes()} == {b"good", b"bad"}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 9) | st.just("checkpoint"))))
def test_a_state_is_a_dict_that_falls_back_to_its_checkpoint(steps: list[tuple[str, Any]]) -> None:
    """Whatever is put, deleted and checkpointed: reads see all changes, a new life sees the last checkpoint."""
    table = Table()
    state = table.state()
    now: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for key, step in steps:
        if step == "checkpoint":
            table.checkpoint(state)
            kept = dict(now)
        elif step is None:
            state.delete(key)
            now.pop(key, None)
        else:
            state.put(key, step)
            now[key] = step
        assert state.get(key) == now.get(key)
        assert dict(state.items()) == now
    assert dict(table.state().items()) == kept
