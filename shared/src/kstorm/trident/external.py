"""States in a database: Storm's `OpaqueMap`, `TransactionalMap` and `NonTransactionalMap`.

A batch is an epoch of the task. Its number, the *txid*, is in the task's own state and thus in the
epoch's transaction. An epoch that was not committed is repeated with the same number, even in
another process. It may then have other tuples.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from kstorm.core.task_state import as_stored
from kstorm.errors import StorageError
from kstorm.fitting import check_fields
from kstorm.topology import KeyValueState
from kstorm.topology.keys import key_text
from kstorm.trident.backends import BackingMap, Owner
from kstorm.trident.epochs import EpochCounter
from kstorm.trident.state import Key

_WRITTEN: Final = "x/p/"
_END: Final = "x/p0"  # "0" is the character after "/"
_NONE: Final[Any] = object()
_MOST_CACHED: Final = 100_000

Rows = dict[str, Any]
"""The stored value of each key."""


@dataclass(frozen=True)
class MapFactory:
    """A state in a database, for `persistent_aggregate`."""

    backing: BackingMap

    def __post_init__(self) -> None:
        check_fields(self)

    def map(self, task: str) -> "ExternalMap":
        """Return a task's part of the state, which has its own copy of the database object."""
        raise NotImplementedError


class ExternalMap:
    """A task's part of the state: values read from the database, and the changes of the current
    epoch.

    The changes of an execution take effect with `keep`, which is called when the execution has
    succeeded. Blocking methods use the database and no data that another thread might use.
    """

    def __init__(self, backing: BackingMap, task: str) -> None:
        self._backing, self._task = backing, task
        self._cache: dict[str, Any] = {}  # values before this epoch
        self._changed: dict[str, Any] = {}  # changes of this epoch
        self._put: dict[str, Any] = {}  # changes of this execution
        self._epochs = EpochCounter()
        self._owner: Owner

    def begin(self, state: KeyValueState) -> None:
        """Receive the task's own state. `open` is called next."""
        self._state = state
        self._epochs.begin(state)

    def open(self) -> None:
        """Connect and take over the task from its previous owner. Blocks."""
        self._backing.open()
        self._owner, stored_last = self._backing.begin_life(self._task)
        self._recover(stored_last)

    def close(self) -> None:
        self._backing.close()

    def connect_again(self) -> None:
        """Reconnect after a database error, as the same owner. Blocks."""
        # The old connection may be broken.
        with suppress(Exception):
            self._backing.close()
        self._backing.open()

    def get(self, key: Key = (), default: Any = None) -> Any:
        """Return the value of a key. Blocks unless the key was loaded."""
        return self._get(key_text(key), default)

    def get_texts(self, texts: Sequence[str], default: Any) -> list[Any]:
        return [self._get(text, default) for text in texts]

    def _get(self, text: str, default: Any) -> Any:
        for values in (self._put, self._changed, self._cache):
            if text in values:
                return default if values[text] is _NONE else _copy(values[text])
        self._read([text])
        return self._get(text, default)

    def load(self, keys: Sequence[Key]) -> None:
        """Read the unknown values of keys in one query, and discard the changes of a failed
        execution. Blocks."""
        self._put = {}
        if len(self._cache) > _MOST_CACHED:
            self._cache = {key: self._cache[key] for key in self._only_here()}
        self._read([text for text in map(key_text, keys) if text not in self._cache])

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Set several keys, which must have been loaded.

        `get` returns the values as MessagePack holds them. Raises the same as `KeyValueState.put`.
        """
        self.put_texts([key_text(key) for key in keys], values)

    def put_texts(self, texts: Sequence[str], values: Sequence[Any]) -> None:
        for text, value in zip(texts, values, strict=True):
            self._put[text] = as_stored(text, value)

    def keep(self) -> None:
        """Make the changes of this execution part of the epoch."""
        self._changed |= self._put
        self._put = {}

    @property
    def has_changed(self) -> bool:
        """True if this epoch has changes."""
        return bool(self._changed)

    def before_commit(self) -> Rows:
        """Return the rows to write before the epoch is committed."""
        return {}

    def end_epoch(self) -> None:
        """End the epoch. Later changes belong to the next one."""
        self._cache |= self._changed
        self._changed = {}
        self._epochs.end()

    def after_commit(self) -> Rows:
        """Return the rows to write after the epoch was committed."""
        return {}

    def write(self, rows: Rows) -> None:
        """Write all rows or none. Raises `FencedError` if another process has taken over the task.
        Blocks."""
        if rows:
            self._backing.multi_put(self._owner, list(rows), list(rows.values()))

    def _read(self, texts: Sequence[str]) -> None:
        if texts:
            for text, stored in zip(texts, self._backing.multi_get(texts), strict=True):
                self._cache[text] = _NONE if stored is None else self._before(stored)

    def _recover(self, stored_last: Sequence[str]) -> None:
        """Repair the state that the previous owner left. Blocks."""

    def _only_here(self) -> Iterable[str]:
        """Return the keys whose value before this epoch is not in the database."""
        return self._changed

    def _before(self, stored: Any) -> Any:
        """Return the value before this epoch, given the stored one."""
        raise NotImplementedError

    def _is_this_epochs(self, txid: int) -> bool:
        """Return True if a value is of an epoch that was not committed. Raises `StorageError` if it
        is of a later epoch."""
        if txid > self._epochs.current:
            raise StorageError(
                f"{self._task} is at epoch {self._epochs.current}, but the database has values of "
                f"epoch {txid}: its table belongs to another topology, or to one whose changelog "
                "was deleted; give this topology its own table"
            )
        return txid == self._epochs.current


class _Opaque(ExternalMap):
    """Stores each value with its previous value. However an epoch is repeated, it starts from the
    same values."""

    def _recover(self, stored_last: Sequence[str]) -> None:
        """Revert the values of an uncommitted epoch. The repeated epoch may not change the same
        keys."""
        for key, stored in zip(stored_last, self._backing.multi_get(stored_last), strict=True):
            if stored is not None and self._is_this_epochs(stored[0]):
                self._changed[key] = self._cache[key] = self._before(stored)

    def before_commit(self) -> Rows:
        return {
            key: [self._epochs.current, _held(value), _held(self._cache[key])]
            for key, value in self._changed.items()
        }

    def _before(self, stored: Any) -> Any:
        txid, value, before = stored
        found = before if self._is_this_epochs(txid) else value
        return found[0] if found else _NONE


class _Transactional(ExternalMap):
    """Stores only the value, and writes it after Kafka's commit. The commit includes the value, so
    a repeated write has the same result."""

    _to_write: Rows

    def begin(self, state: KeyValueState) -> None:
        # Values that the previous owner has committed may not be in the database yet.
        super().begin(state)
        left = {key.removeprefix(_WRITTEN): row for key, row in state.range(_WRITTEN, _END)}
        self._to_write = {key: row for key, row in left.items() if row[0] == self._epochs.ended}
        self._cache = {key: value for key, (_, value) in left.items()}

    def _recover(self, stored_last: Sequence[str]) -> None:
        self.write(self.after_commit())

    def end_epoch(self) -> None:
        """Add the epoch's changes to the task's state. Remove those of the previous epoch, which
        are in the database by now."""
        for key in [key for key, _ in self._state.range(_WRITTEN, _END)]:
            if key.removeprefix(_WRITTEN) not in self._changed:
                self._state.discard(key)
        self._to_write = {
            key: [self._epochs.current, value] for key, value in self._changed.items()
        }
        for key, row in self._to_write.items():
            self._state.put(_WRITTEN + key, row)
        super().end_epoch()

    def _only_here(self) -> Iterable[str]:
        # The changes of the previous epoch may not be in the database yet.
        return {**self._changed, **self._to_write}

    def after_commit(self) -> Rows:
        rows, self._to_write = self._to_write, {}
        return rows

    def _before(self, stored: Any) -> Any:
        txid, value = stored
        self._is_this_epochs(txid)
        return value


class _NonTransactional(ExternalMap):
    """Stores only the value. A repeated epoch is counted again."""

    def before_commit(self) -> Rows:
        return self._changed

    def _before(self, stored: Any) -> Any:
        return stored


def _copy(value: Any) -> Any:
    """Return a value that the caller may change."""
    return value if isinstance(value, str | int | float | bytes | None) else deepcopy(value)


def _held(value: Any) -> list[Any]:
    return [] if value is _NONE else [value]


class OpaqueMap(MapFactory):
    """Exactly-once with every spout (Storm's `OpaqueMap`). A value is stored with its epoch's
    number and its previous value."""

    def map(self, task: str) -> ExternalMap:
        return _Opaque(deepcopy(self.backing), task)


class TransactionalMap(MapFactory):
    """Exactly-once at half the size (Storm's `TransactionalMap`). A value is stored with its
    epoch's number.

    Storm needs a spout that repeats the same batch. Here the changelog has the batch's values, so
    that they can be written again.
    """

    def map(self, task: str) -> ExternalMap:
        return _Transactional(deepcopy(self.backing), task)


class NonTransactionalMap(MapFactory):
    """At-least-once: only the value is stored, and a repeated epoch is counted again (Storm's
    `NonTransactionalMap`)."""

    def map(self, task: str) -> ExternalMap:
        return _NonTransactional(deepcopy(self.backing), task)
