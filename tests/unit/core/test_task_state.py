"""The state of a stateful task: its reads, writes and checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core import task_state as module
from kstorm.core.task_state import TaskState


@dataclass(frozen=True)
class Frozen:
    x: int


class Table:
    """The stored rows, as a changelog would return them."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.loads = 0

    def load(self, key: bytes) -> bytes | None:
        self.loads += 1
        return self.rows.get(key)

    def checkpoint(self, state: TaskState) -> set[bytes]:
        """Stores the changes, and returns their keys."""
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
        return TaskState(
            self.load, lambda start: [row for row in sorted(self.rows.items()) if row[0] >= start]
        )


def test_stored_values_survive() -> None:
    """Checkpointed values of every kind survive. Other changes are lost."""
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
    """The default is returned but not stored. None is a value."""
    state = Table().state()
    assert state.get("a") is None
    assert state.get("a", 0) == 0
    assert state.get("a", 7) == 7
    state.put("a", None)
    assert state.get("a", 7) is None


def test_deleting() -> None:
    """A deleted key is gone at once. The next checkpoint deletes it from the store."""
    table = Table()
    state = table.state()
    state.put("a", 1)
    table.checkpoint(state)
    assert state.delete("a") == 1
    assert state.delete("a") is None
    assert state.delete("never") is None
    assert state.get("a", "gone") == "gone"
    assert list(state.items()) == []
    assert table.checkpoint(state) == {b"a"}
    assert table.rows == {}


def test_delete_returns_the_previous_value() -> None:
    """The value may be in memory, on disk or new.

    A value that cannot be decoded can be deleted too.
    """
    table = Table()
    table.rows = {b"stored": b"\x07", b"broken": b"\xc1"}
    state = table.state()
    state.put("new", [1])
    state.put("none", None)
    assert [state.delete(key) for key in ("stored", "new", "none", "broken")] == [
        7,
        [1],
        None,
        None,
    ]
    assert state.get("broken") is None
    table.checkpoint(state)
    assert table.rows == {}


def test_checkpoint_contains_changes_since_the_last_one() -> None:
    """A change after the checkpoint waits for the next one."""
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
    """This includes missing keys."""
    table = Table()
    state = table.state()
    for _ in range(3):
        state.get("a")
    assert table.loads == 1


def test_items_merge_changes_and_stored_values() -> None:
    """Stored, changed and new keys appear once, with their latest value."""
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
    """Stored keys may leave memory. Keys with unstored changes may not."""
    monkeypatch.setattr(module, "_CACHED_BYTES", 3 * module._KEY_WEIGHT)
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


def held(state: TaskState) -> int:
    """Returns the bytes of the texts in memory."""
    return sum(len(value) for value in state._cache.values() if isinstance(value, str))


@pytest.mark.parametrize("way", ["written", "read"])
def test_memory_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A few large values weigh as much as many small ones, whether put or read."""
    monkeypatch.setattr(module, "_CACHED_BYTES", 100_000)
    table = Table()
    state = table.state()
    for number in range(95):
        state.put(f"k{number}", "x" * 10_000)
        table.checkpoint(state)
    if way == "read":
        state = table.state()
        for number in range(95):
            assert len(state.get(f"k{number}")) == 10_000
            assert held(state) <= 120_000
    assert 0 < held(state) <= 120_000
    assert len(list(state.items())) == 95


def test_a_value_put_again_and_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not evict the others."""
    monkeypatch.setattr(module, "_CACHED_BYTES", 100_000)
    table = Table()
    state = table.state()
    state.put("other", 1)
    for _ in range(100):
        state.put("large", "x" * 10_000)
        table.checkpoint(state)
    state.put("large", 0)
    table.checkpoint(state)
    assert state._weight == sum(module._KEY_WEIGHT + len(key) for key in ("other", "large"))
    table.loads = 0
    assert (state.get("other"), state.get("large"), table.loads) == (1, 0, 0)


def test_changes_of_a_pending_checkpoint_stay_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes are taken for a checkpoint but not stored, and `load` would return old values."""
    monkeypatch.setattr(module, "_CACHED_BYTES", 2 * module._KEY_WEIGHT)
    table = Table()
    table.rows = {b"%d" % number: b"\x01" for number in range(10)}
    state = table.state()
    state.put("taken", 2)
    state.put("0", 2)
    changes = state.take_changes()
    state.put("dirty", 3)
    for number in range(1, 10):
        assert state.get(str(number)) == 1
    assert (state.get("taken"), state.get("0"), state.get("dirty")) == (2, 2, 3)
    table.write(changes)
    state.stored()
    assert table.checkpoint(state) == {b"dirty"}


class Colour(IntEnum):
    """Numbers with names."""

    RED = 1


class Unknown:
    """A class without a MessagePack type."""


@pytest.mark.parametrize(
    "value", [Unknown(), 2**64, -(2**63) - 1, [2**64], 1j, "\ud800", {"a": Unknown()}]
)
def test_unencodable_value_is_refused_by_put(value: Any) -> None:
    """The error names the key. The key keeps its old value, and the checkpoint is unaffected."""
    table = Table()
    state = table.state()
    state.put("bad", 1)
    with pytest.raises(TypeError, match="'bad'"):
        state.put("bad", value)
    with pytest.raises(TypeError, match="'new'"):
        state.put("new", value)
    assert (state.get("bad"), state.get("new", "none")) == (1, "none")
    assert table.checkpoint(state) == {b"bad"}
    assert table.state().get("bad") == 1


@pytest.mark.parametrize("value", ["x" * (16 << 20), b"x" * (16 << 20), ["x" * (8 << 20)] * 2])
def test_too_large_value_is_refused_by_put(value: Any) -> None:
    """The error has its size and the remedy."""
    state = Table().state()
    with pytest.raises(
        ValueError, match=r"'k' has 167772.* bytes.*spread the value over several keys"
    ):
        state.put("k", value)
    assert state.take_changes() == []


@pytest.mark.parametrize(
    ("key", "error"), [(7, TypeError), ("\udc00", TypeError), ("k" * ((1 << 20) + 1), ValueError)]
)
def test_a_key_that_cannot_be_stored(key: Any, error: type[Exception]) -> None:
    """The key is rejected too."""
    state = Table().state()
    with pytest.raises(error, match="the state's key"):
        state.put(key, 1)
    assert state.take_changes() == []
    assert state._weight == 0


@pytest.mark.parametrize(
    "value",
    [2**64 - 1, -(2**63), True, 0.5, float("nan"), "ä", "x" * 99, "x" * 100, b"", None, Colour.RED],
)
def test_accepted_values_can_be_stored_by_a_checkpoint(value: Any) -> None:
    """The checkpoint encodes some values earlier than others."""
    table = Table()
    state = table.state()
    state.put("k", value)
    table.checkpoint(state)
    assert repr(table.state().get("k")) == repr(int(value) if isinstance(value, IntEnum) else value)


def test_value_is_stored_as_of_its_put() -> None:
    """A value that changed in place must be put again."""
    table = Table()
    state = table.state()
    words = ["a"]
    state.put("words", words)
    words.append("b")
    table.checkpoint(state)
    assert table.state().get("words") == ["a"]
    state.put("words", words)
    table.checkpoint(state)
    assert table.state().get("words") == ["a", "b"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 9) | st.just("checkpoint"))
    )
)
def test_a_state_is_a_dict_that_falls_back_to_its_checkpoint(steps: list[tuple[str, Any]]) -> None:
    """Reads see all puts and deletes. A restarted task sees the last checkpoint."""
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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "checkpoint", "take", "look"]),
            st.text("abß\U0001f404/", max_size=3),
            st.integers(0, 9),
        ),
        max_size=20,
    ),
    st.text("abß\U0001f404/", max_size=2),
    st.none() | st.text("abß\U0001f404/", max_size=2),
)
def test_range_matches_a_sorted_dict(changes: Any, start: str, end: str | None) -> None:
    """The range covers stored rows, rows that are being stored, and later changes."""
    table, truth = Table(), dict[str, int]()
    state = table.state()
    for kind, key, value in changes:
        if kind == "put":
            state.put(key, value)
            truth[key] = value
        elif kind == "delete":
            state.delete(key)
            truth.pop(key, None)
        elif kind == "checkpoint":
            table.checkpoint(state)
        elif kind == "look":
            assert dict(state.range()) == truth
        else:
            table.write(state.take_changes())
    expected = [
        (key, truth[key]) for key in sorted(truth) if start <= key and (end is None or key < end)
    ]
    assert list(state.range(start, end)) == expected


def test_cost_of_ranges_does_not_grow_with_changes() -> None:
    """Each range reads few keys. Keys are sorted once, and new ones are inserted."""
    looked = 0

    class Counted(str):
        def __lt__(self, other: str) -> bool:
            nonlocal looked
            looked += 1
            return str.__lt__(self, other)

    table = Table()
    state = table.state()
    for number in range(5000):
        state.put(Counted(f"{number:05d}"), number)
    assert next(state.range("03000"))[1] == 3000
    looked = 0
    for number in range(5000, 5200):
        state.put(Counted(f"{number:05d}"), number)
        assert next(state.range(f"{number:05d}"))[1] == number
    assert looked < 200 * 40
    for number in range(9000, 9500):
        state.put(Counted(f"{number:05d}"), number)
    assert [value for _, value in state.range("05198", "09002")] == [5198, 5199, 9000, 9001]


def test_range_after_a_checkpoint_reads_from_disk() -> None:
    """The keys that were being stored are now on disk only."""
    table = Table()
    state = table.state()
    state.put("a", 1)
    table.write(state.take_changes())
    assert list(state.range()) == [("a", 1)]
    state.stored()
    state._make_room()
    assert list(state.range()) == [("a", 1)]


class Number(IntEnum):
    ONE = 1


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (frozenset({"a"}), ["a"]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 11, 26), "2026-11-26"),
        (Number.ONE, 1),
        (Point(1), {"x": 1}),
        ([(1, {2}), bytearray(b"x")], [[1, [2]], b"x"]),
        ({"a": (1,), "b": {"c": {4}}}, {"a": [1], "b": {"c": [4]}}),
        ({(1, 2): 3}, {(1, 2): 3}),
    ],
    ids=lambda value: "memoryview" if type(value) is memoryview else repr(value),
)
def test_a_value_is_read_as_after_a_recovery(value: Any, read: Any) -> None:
    """The type is the same at once, and not only after a crash or an eviction."""
    table = Table()
    state = table.state()
    state.put("a", value)
    for found in (state.get("a"), dict(state.items())["a"], dict(state.range())["a"]):
        assert (found, type(found)) == (read, type(read))
    table.checkpoint(state)
    assert state.get("a") == read
    assert table.state().get("a") == read
    assert state.delete("a") == read


def _read_by_range(state: TaskState) -> Callable[[str], Any]:
    return lambda key: dict(state.range())[key]


@pytest.mark.parametrize("made", [list, lambda: {"x": [1]}, lambda: [[1]]])
def test_a_change_without_a_put_changes_nothing(made: Any) -> None:
    """This holds for put and read values, for each read method, and for nested values."""
    table = Table()
    state = table.state()
    value = made()
    state.put("a", value)

    def change(found: Any) -> None:
        for inner in [*(found.values() if isinstance(found, dict) else found), found]:
            inner.clear()
            _ = inner.update({"y": 2}) if isinstance(inner, dict) else inner.append(9)

    change(value)
    for _ in range(3):
        for read in (state.get, lambda key: dict(state.items())[key], _read_by_range(state)):
            assert read("a") == made()
            change(read("a"))
            change(read("a"))
        table.checkpoint(state)
    again = table.state()
    for _ in range(3):
        assert again.get("a") == made()
        change(again.get("a"))
    assert again.delete("a") == made()


@pytest.mark.parametrize(
    "value",
    [msgspec.Raw(b"\xc1"), [msgspec.Raw(b"")], {Frozen(1): 1}, msgspec.msgpack.Ext(-1, b"x")],
    ids=["raw", "empty raw", "dict as a key", "time"],
)
def test_put_refuses_values_that_cannot_be_read_back(value: Any) -> None:
    """Otherwise every recovery would fail, and a retry could not help."""
    table = Table()
    state = table.state()
    state.put("a", 1)
    with pytest.raises(TypeError, match="'a' cannot be stored, because MessagePack can encode it"):
        state.put("a", value)
    assert state.get("a") == 1
    table.checkpoint(state)
    assert table.state().get("a") == 1
