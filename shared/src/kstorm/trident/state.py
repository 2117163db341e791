"""States of streams, their updates and their queries (Storm's `trident.state`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kstorm.errors import StorageError
from kstorm.topology import KeyValueState
from kstorm.topology.keys import key_text, key_values
from kstorm.trident.operations import Operation, TridentCollector
from kstorm.trident.tuple import TridentTuple

Key = Sequence[Any]
"""The values of the group fields."""
_NONE: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class KstormState:
    """kstorm's own state: RocksDB and a changelog. Each change is in the transaction of the tuples
    that caused it."""


def kstorm_state() -> KstormState:
    """Return the state for `persistent_aggregate` and `partition_persist`. It is exactly-once,
    whatever fails."""
    return KstormState()


class Readable(Protocol):
    """A state that can be read by key."""

    def get(self, key: Key = (), default: Any = None) -> Any:
        """Return the value of a key, or `default`."""


class MapState:
    """A task's part of a state, by key (Storm's `MapState`). Without group fields, the only key is
    `()` (Storm's `Snapshottable`)."""

    def __init__(self, state: KeyValueState) -> None:
        self._state = state

    def get(self, key: Key = (), default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        return self._state.get(key_text(key), default)

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Return the values of several keys, with None for missing ones."""
        return [self.get(key) for key in keys]

    def put(self, key: Key, value: Any) -> None:
        """Set the value of a key. Raises the same errors as `KeyValueState.put`."""
        self._state.put(key_text(key), value)

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Set the values of several keys."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def multi_update(
        self, keys: Sequence[Key], updates: Sequence[Callable[[Any], Any]]
    ) -> list[Any]:
        """Set each key to the result of its update and return the new values.

        An update receives the old value, or None if the key is missing.
        """
        values = [update(self.get(key)) for key, update in zip(keys, updates, strict=True)]
        self.multi_put(keys, values)
        return values

    def get_texts(self, texts: Sequence[str], default: Any) -> list[Any]:
        """Return the values of keys that are already encoded as text."""
        get = self._state.get
        return [get(text, default) for text in texts]

    def put_texts(self, texts: Sequence[str], values: Sequence[Any]) -> None:
        """Set the values of keys that are already encoded as text."""
        put = self._state.put
        for text, value in zip(texts, values, strict=True):
            put(text, value)

    def delete(self, key: Key) -> Any:
        """Delete a key. Return its value, or None if it is missing."""
        return self._state.delete(key_text(key))

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Delete several keys (Storm's `RemovableMapState`)."""
        for key in keys:
            self.delete(key)

    def get_tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield each key's values followed by the stored value, for the task's part (Storm's
        `ITupleCollection`)."""
        return ((*key_values(text), value) for text, value in self._state.items())


class Snapshottable:
    """The single value of a state without keys (Storm's `SnapshottableMap`)."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, default: Any = None) -> Any:
        """Return the value, or `default`."""
        return self._state.get((), default)

    def set(self, value: Any) -> None:
        """Set the value."""
        self._state.put((), value)

    def update(self, update: Callable[[Any], Any]) -> Any:
        """Set the value to the result of `update` and return it. `update` receives the old value,
        or None."""
        (value,) = self._state.multi_update([()], [update])
        return value


class ResultMap:
    """A read-only `MapState` that returns the aggregator's results for the stored values."""

    def __init__(self, state: Readable, show: Callable[[Any], Any]) -> None:
        self._state, self._show = state, show

    def get(self, key: Key = (), default: Any = None) -> Any:
        """Return the result of a key, or `default`."""
        value = self._state.get(key, _NONE)
        return default if value is _NONE else self._show(value)

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Return the results of several keys, with None for missing ones."""
        return [self.get(key) for key in keys]

    def get_tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield each key's values followed by the result, for the task's part. Raises
        `StorageError` if the state is in a database."""
        if not isinstance(self._state, MapState):
            raise StorageError(
                "a state in a database does not list the keys of a task: query the database, or "
                "use kstorm_state()"
            )
        return ((*key, self._show(value)) for *key, value in self._state.get_tuples())


class StateUpdater(Operation):
    """Changes a state with the tuples of a batch (Storm's `StateUpdater`)."""

    def update_state(
        self, state: Any, tuples: Sequence[TridentTuple], collector: TridentCollector
    ) -> None:
        """Update the state. The output is emitted on `new_values_stream`."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_state")


class QueryFunction(Operation):
    """Queries a state (Storm's `QueryFunction`)."""

    asks_by_key = True
    """True if the input fields are a key. A tuple is then sent to the task that has the key.

    Otherwise the user chooses the tasks to query: all of them with `broadcast`.
    """
    asks_for_all = False
    """True if the query reads everything that a task has. Only `kstorm_state()` supports this."""

    def batch_retrieve(self, state: Any, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        """Return an answer for each tuple, in the same order."""
        raise NotImplementedError(f"{type(self).__name__} does not define batch_retrieve")

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        """Emit the fields that the answer adds to the tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")


class MapGet(QueryFunction):
    """Adds the value of the key in the input fields, or None if the key is missing."""

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        return state.multi_get([tuple.values for tuple in tuples])

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


class SnapshotGet(QueryFunction):
    """Adds the single value of a state without groups, or None if it has not been set."""

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        return [state.get()] * len(tuples)

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


class TupleCollectionGet(QueryFunction):
    """Adds everything that a task has of a state: one tuple per key, with the key's values and its
    value.

    `questions.broadcast().state_query(counts, (), TupleCollectionGet(), Fields("word", "count"))`
    queries all tasks. It reads the whole state once per batch.
    """

    asks_by_key = False
    asks_for_all = True

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        return [list(state.get_tuples())] * len(tuples)

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        for values in result:
            collector.emit(values)


def texts_of_groups(groups: Sequence[Any], fields: int) -> list[str]:
    """Return `key_text` of the keys of groups with `fields` fields, as returned by
    `Picked.keys`."""
    if fields != 1:
        return list(map(key_text, groups))
    # The check for a plain text is inlined, because this runs for each group of each batch.
    return [
        group
        if type(group) is str and group[:1] != "[" and "\0" not in group
        else key_text((group,))
        for group in groups
    ]
