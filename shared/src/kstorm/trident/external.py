"""States in a database: Storm's `OpaqueMap`, `TransactionalMap` and `NonTransactionalMap`.

A batch is an epoch of the task, and its number, the *txid*, is in the task's own state, so in the epoch's transaction. An epoch
that was not committed comes again under its number, by whichever process; perhaps with other tuples.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from kstorm.errors import StorageError
from kstorm.topology import KeyValueState
from kstorm.trident.backing import BackingMap, Owner
from kstorm.trident.epochs import Epochs
from kstorm.trident.state import Key, text_of

_WRITTEN: Final = "x/p/"
_END: Final = "x/p0"  # "0" is the character behind "/"
_NONE: Final[Any] = object()
_MOST_CACHED: Final = 100_000

Rows = dict[str, Any]
"""What the database has of each key."""


@dataclass(frozen=True)
class MapFactory:
    """A state in a database, to be given to `persistent_aggregate`."""

    backing: BackingMap

    def map(self, task: str) -> "ExternalMap":
        """That of a task, which has a copy of the database's object of its own."""
        raise NotImplementedError


class ExternalMap:
    """A task's part of such a state: what it reads of the database, and what this epoch makes of it.

    What an execution puts takes effect with `keep`, which is called when it has ended well. Methods that block use the database,
    and nothing else that another thread might use.
    """

    def __init__(self, backing: BackingMap, task: str) -> None:
        self._backing, self._task = backing, task
        self._cache: dict[str, Any] = {}  # what was before this epoch
        self._changed: dict[str, Any] = {}  # in this epoch
        self._put: dict[str, Any] = {}  # in this execution
        self._epochs = Epochs()
        self._owner: Owner

    def begin(self, state: KeyValueState) -> None:
        """The task has its state; `open` comes next."""
        self._state = state
        self._epochs.begin(state)

    def open(self) -> None:
        """Takes the database over from the task's life before. Blocks."""
        self._backing.open()
        self._owner, stored_last = self._backing.begin_life(self._task)
        self._recover(stored_last)

    def close(self) -> None:
        """Ends the connection."""
        self._backing.close()

    def connect_again(self) -> None:
        """After an error of the database. The life goes on. Blocks."""
        with suppress(Exception):  # of a connection that is broken
            self._backing.close()
        self._backing.open()

    def get(self, key: Key = (), default: Any = None) -> Any:
        """The value of a key. Blocks, unless it was loaded."""
        return self._get(text_of(key), default)

    def get_texts(self, texts: Sequence[str], default: Any) -> list[Any]:
        """See `MapState.get_texts`."""
        return [self._get(text, default) for text in texts]

    def _get(self, text: str, default: Any) -> Any:
        for values in (self._put, self._changed, self._cache):
            if text in values:
                return default if values[text] is _NONE else _copy(values[text])
        self._read([text])
        return self._get(text, default)

    def load(self, keys: Sequence[Key]) -> None:
        """Reads what is not known of these keys, all at once; what an execution that failed has put is forgotten. Blocks."""
        self._put = {}
        if len(self._cache) > _MOST_CACHED:
            self._cache = {key: self._cache[key] for key in self._only_here()}
        self._read([text for text in map(text_of, keys) if text not in self._cache])

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Sets several keys that were loaded."""
        self.put_texts([text_of(key) for key in keys], values)

    def put_texts(self, texts: Sequence[str], values: Sequence[Any]) -> None:
        """See `MapState.put_texts`."""
        self._put |= dict(zip(texts, values, strict=True))

    def keep(self) -> None:
        """What was put is part of the epoch."""
        self._changed |= self._put
        self._put = {}

    @property
    def has_changed(self) -> bool:
        """Whether this epoch has put anything."""
        return bool(self._changed)

    def before_commit(self) -> Rows:
        """What is to be written before the epoch is committed."""
        return {}

    def end_epoch(self) -> None:
        """What comes next is the next epoch's."""
        self._cache |= self._changed
        self._changed = {}
        self._epochs.end()

    def after_commit(self) -> Rows:
        """What is to be written when it was committed."""
        return {}

    def write(self, rows: Rows) -> None:
        """Writes all of it or nothing. Raises `FencedError` if the task is another process's. Blocks."""
        if rows:
            self._backing.multi_put(self._owner, list(rows), list(rows.values()))

    def _read(self, texts: Sequence[str]) -> None:
        if texts:
            for text, stored in zip(texts, self._backing.multi_get(texts), strict=True):
                self._cache[text] = _NONE if stored is None else self._before(stored)

    def _recover(self, stored_last: Sequence[str]) -> None:
        """Mends what the life before has left. Blocks."""

    def _only_here(self) -> Iterable[str]:
        """The keys of which the database cannot give the value before this epoch."""
        return self._changed

    def _before(self, stored: Any) -> Any:
        """The value before this epoch, of what the database has."""
        raise NotImplementedError

    def _is_this_epochs(self, txid: int) -> bool:
        """Whether a value is of an epoch that was not committed. Raises `StorageError` if it is of a later one."""
        if txid > self._epochs.current:
            raise StorageError(
                f"{self._task} is at epoch {self._epochs.current}, and the database has values of epoch {txid}: it belongs to "
                "another topology, or to one whose changelog was deleted; give this one a table of its own"
            )
        return txid == self._epochs.current


class _Opaque(ExternalMap):
    """A value with the one before it: whatever the epoch comes to when it comes again, it begins where the first one began."""

    def _recover(self, stored_last: Sequence[str]) -> None:
        """What was stored of an epoch that was not committed has to go, if it does not come again as well."""
        for key, stored in zip(stored_last, self._backing.multi_get(stored_last), strict=True):
            if stored is not None and self._is_this_epochs(stored[0]):
                self._changed[key] = self._cache[key] = self._before(stored)

    def before_commit(self) -> Rows:
        """See `ExternalMap.before_commit`."""
        return {
            key: [self._epochs.current, _held(value), _held(self._cache[key])]
            for key, value in self._changed.items()
        }

    def _before(self, stored: Any) -> Any:
        txid, value, before = stored
        found = before if self._is_this_epochs(txid) else value
        return found[0] if found else _NONE


class _Transactional(ExternalMap):
    """A value and no more: it is written after Kafka's commit, which has it too, so that it is the same when it is written
    again."""

    _to_write: Rows

    def begin(self, state: KeyValueState) -> None:
        """What the former owner had committed may not have been written."""
        super().begin(state)
        left = {key.removeprefix(_WRITTEN): row for key, row in state.range(_WRITTEN, _END)}
        self._to_write = {key: row for key, row in left.items() if row[0] == self._epochs.ended}
        self._cache = {key: value for key, (_, value) in left.items()}

    def _recover(self, stored_last: Sequence[str]) -> None:
        self.write(self.after_commit())

    def end_epoch(self) -> None:
        """Puts what changed beside the epoch, and takes away what was written after the one before."""
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
        return {**self._changed, **self._to_write}  # the epoch before may not be written yet

    def after_commit(self) -> Rows:
        """See `ExternalMap.after_commit`."""
        rows, self._to_write = self._to_write, {}
        return rows

    def _before(self, stored: Any) -> Any:
        txid, value = stored
        self._is_this_epochs(txid)
        return value


class _NonTransactional(ExternalMap):
    """A value: what an epoch that comes again adds to it, it adds again."""

    def before_commit(self) -> Rows:
        """See `ExternalMap.before_commit`."""
        return self._changed

    def _before(self, stored: Any) -> Any:
        return stored


def _copy(value: Any) -> Any:
    """What its user may change."""
    return value if isinstance(value, str | int | float | bytes | None) else deepcopy(value)


def _held(value: Any) -> list[Any]:
    return [] if value is _NONE else [value]


class OpaqueMap(MapFactory):
    """Exact with every spout: a value is stored with the number of its epoch and the value before (Storm's `OpaqueMap`)."""

    def map(self, task: str) -> ExternalMap:
        """See `MapFactory.map`."""
        return _Opaque(deepcopy(self.backing), task)


class TransactionalMap(MapFactory):
    """Exact, and half the size: a value is stored with the number of its epoch (Storm's `TransactionalMap`). Storm needs a
    spout that gives the same batch again; here the changelog has the batch's values, and writes them again."""

    def map(self, task: str) -> ExternalMap:
        """See `MapFactory.map`."""
        return _Transactional(deepcopy(self.backing), task)


class NonTransactionalMap(MapFactory):
    """At least once: a value is stored as it is, and an epoch that comes again counts again (Storm's `NonTransactionalMap`)."""

    def map(self, task: str) -> ExternalMap:
        """See `MapFactory.map`."""
        return _NonTransactional(deepcopy(self.backing), task)
