"""What a stream keeps: states, their updates and their queries (Storm's `trident.state`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from kstorm.errors import StorageError
from kstorm.topology import KeyValueState
from kstorm.trident.operations import Operation, TridentCollector
from kstorm.trident.tuple import TridentTuple

Key = Sequence[Any]
"""The values of the group fields."""
_NONE: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class KstormState:
    """kstorm's own state: RocksDB and a changelog, each change in the transaction of the tuples that it comes from."""


def kstorm_state() -> KstormState:
    """The state to give to `persistent_aggregate` and `partition_persist`: exact, whatever dies."""
    return KstormState()


class Readable(Protocol):
    """A state by key."""

    def get(self, key: Key = (), default: Any = None) -> Any:
        """The value of a key, or `default`."""
        ...


class MapState:
    """A task's part of a state, by key (Storm's `MapState`); without group fields the one key is `()` (its `Snapshottable`)."""

    def __init__(self, state: KeyValueState) -> None:
        self._state = state

    def get(self, key: Key = (), default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return self._state.get(text_of(key), default)

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Of several; None where there is none."""
        return [self.get(key) for key in keys]

    def put(self, key: Key, value: Any) -> None:
        """Sets a key. Raises as `KeyValueState.put`."""
        self._state.put(text_of(key), value)

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Sets several."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def multi_update(
        self, keys: Sequence[Key], updates: Sequence[Callable[[Any], Any]]
    ) -> list[Any]:
        """Sets each to what its update makes of the value that there was, None if none; returns the new ones."""
        values = [update(self.get(key)) for key, update in zip(keys, updates, strict=True)]
        self.multi_put(keys, values)
        return values

    def get_texts(self, texts: Sequence[str], default: Any) -> list[Any]:
        """`get` of keys that are texts already."""
        get = self._state.get
        return [get(text, default) for text in texts]

    def put_texts(self, texts: Sequence[str], values: Sequence[Any]) -> None:
        """`put` of the same."""
        put = self._state.put
        for text, value in zip(texts, values, strict=True):
            put(text, value)

    def delete(self, key: Key) -> Any:
        """Removes a key; returns the value that it had, None if there was none."""
        return self._state.delete(text_of(key))

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Removes several (Storm's `RemovableMapState`)."""
        for key in keys:
            self.delete(key)

    def get_tuples(self) -> Iterator[tuple[Any, ...]]:
        """All of the task's part: each key's values, and its value (Storm's `ITupleCollection`)."""
        return ((*key_of(text), value) for text, value in self._state.items())


class Snapshottable:
    """The one value of a state without keys (Storm's `SnapshottableMap`)."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, default: Any = None) -> Any:
        """The value, or `default`."""
        return self._state.get((), default)

    def set(self, value: Any) -> None:
        """Sets it."""
        self._state.put((), value)

    def update(self, update: Callable[[Any], Any]) -> Any:
        """Sets it to what `update` makes of the value that there was, None if none; returns the new one."""
        (value,) = self._state.multi_update([()], [update])
        return value


class ShownMap:
    """A `MapState` to read, of which values are shown as an aggregator's results."""

    def __init__(self, state: Readable, show: Callable[[Any], Any]) -> None:
        self._state, self._show = state, show

    def get(self, key: Key = (), default: Any = None) -> Any:
        """The value of a key, or `default`."""
        value = self._state.get(key, _NONE)
        return default if value is _NONE else self._show(value)

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Of several; None where there is none."""
        return [self.get(key) for key in keys]

    def get_tuples(self) -> Iterator[tuple[Any, ...]]:
        """All of the task's part: each key's values, and its result. Raises `StorageError` if the state is in a database."""
        if not isinstance(self._state, MapState):
            raise StorageError(
                "a state in a database does not list what a task has: ask the database, or keep kstorm_state()"
            )
        return ((*key, self._show(value)) for *key, value in self._state.get_tuples())


class StateUpdater(Operation):
    """Changes a state by the tuples of a batch (Storm's `StateUpdater`)."""

    def update_state(
        self, state: Any, tuples: Sequence[TridentTuple], collector: TridentCollector
    ) -> None:
        """What is emitted comes out of `new_values_stream`."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_state")


class QueryFunction(Operation):
    """Asks a state (Storm's `QueryFunction`)."""

    asks_by_key = True
    """Whether the input fields are a key, so that a tuple has to be in the task that has it. If not, whoever wires it says which
    tasks are asked: by `broadcast` all of them."""
    asks_for_all = False
    """Whether it wants all that a task has, which only `kstorm_state()` can tell."""

    def batch_retrieve(self, state: Any, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        """An answer for each tuple, in their order."""
        raise NotImplementedError(f"{type(self).__name__} does not define batch_retrieve")

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        """Emits what the answer adds to the tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")


class MapGet(QueryFunction):
    """Adds the value of the key that the input fields are; None where there is none."""

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        """See `QueryFunction.batch_retrieve`."""
        return state.multi_get([tuple.values for tuple in tuples])

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        """See `QueryFunction.execute`."""
        collector.emit([result])


class SnapshotGet(QueryFunction):
    """Adds the one value of a state without groups; None if there is none yet."""

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        """See `QueryFunction.batch_retrieve`."""
        return [state.get()] * len(tuples)

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        """See `QueryFunction.execute`."""
        collector.emit([result])


class TupleCollectionGet(QueryFunction):
    """Adds all that a task has of a state: a tuple for each key, with the key's values and its value.

    `questions.broadcast().state_query(counts, (), TupleCollectionGet(), Fields("word", "count"))` asks all tasks. It reads the
    whole state, once for each batch.
    """

    asks_by_key = False
    asks_for_all = True

    def batch_retrieve(self, state: MapState, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        """See `QueryFunction.batch_retrieve`."""
        return [list(state.get_tuples())] * len(tuples)

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        """See `QueryFunction.execute`."""
        for values in result:
            collector.emit(values)


def key_of(text: str) -> Key:
    """The values of which `text_of` made a key."""
    return msgspec.json.decode(text) if text.startswith("[") else [text]


def text_of(key: Key) -> str:
    """A key as the state has it. One text is itself, so that people can ask for it; all else is a list in JSON, so 1 and "1" are
    two."""
    if len(key) == 1 and isinstance(key[0], str) and not key[0].startswith("["):
        return key[0]
    return msgspec.json.encode(list(key)).decode()


def texts_of_groups(groups: Sequence[Any], fields: int) -> list[str]:
    """`text_of` of the keys of groups of so many fields, as `Picked.keys` gives them. Written out for a text: this is done for each
    group of each batch."""
    if fields == 1:
        return [
            group if type(group) is str and group[:1] != "[" else text_of((group,))
            for group in groups
        ]
    return [text_of(group) for group in groups]
