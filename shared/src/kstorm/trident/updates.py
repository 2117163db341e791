"""Updates and queries of states by batches."""

from collections.abc import Sequence
from typing import Any, Protocol

from kstorm.core.watched_buffers import BufferWatch
from kstorm.topology import Fields, KeyValueState
from kstorm.trident.aggregators import CombinerAggregator, ReducerAggregator
from kstorm.trident.batches import Batch, FieldSelection, Row
from kstorm.trident.emit_buffer import make_emit_buffer
from kstorm.trident.external import ExternalMap, MapFactory
from kstorm.trident.operations import Operation
from kstorm.trident.state import MapState, QueryFunction, ResultMap, StateUpdater, texts_of_groups
from kstorm.trident.steps import add_answers, by_group, combine_groups, reduce_groups

_NONE: Any = object()


class StateUpdate(Protocol):
    """The update of a state by the batches of a stream."""

    watch: BufferWatch | None

    @property
    def operation(self) -> Operation:
        """Prepared and cleaned up with the task."""

    @property
    def output(self) -> Fields:
        """The output fields."""

    @property
    def map_factory(self) -> object:
        """Creates the external state. None if the state is the task's own."""

    @property
    def map(self) -> Any:
        """The task's part of an external state: an `ExternalMap` or an object with the same
        methods."""

    def begin(self, state: KeyValueState, task: str) -> None:
        """Receive the task's own state. `task` identifies the task across restarts."""

    def reader(self) -> Any:
        """Return the state as queries receive it."""

    def keys(self, batch: Batch) -> Sequence[Row]:
        """Return the keys whose values these rows need."""

    def run(self, batch: Batch) -> Batch:
        """Change the state and return the output. The values of an external state must be
        loaded."""


class AggregateUpdate:
    """The update of `persistent_aggregate`, which combines each group's old value with its new
    tuples."""

    watch: BufferWatch | None = None

    def __init__(
        self,
        aggregator: CombinerAggregator | ReducerAggregator,
        groups: FieldSelection,
        picked: FieldSelection,
        output: Fields,
        *,
        partial: bool,
        outside: MapFactory | None = None,
    ) -> None:
        """With `partial`, the picked field is a value that was combined upstream. `outside` is the
        external state, or None for the task's own."""
        self.operation: CombinerAggregator | ReducerAggregator = aggregator
        self.output = output
        self._groups, self._picked, self._partial, self.map_factory = (
            groups,
            picked,
            partial,
            outside,
        )
        self.map: ExternalMap | None = None
        """The task's part of an external state."""

    def begin(self, state: KeyValueState, task: str) -> None:
        if self.map_factory is None:
            self._state: MapState | ExternalMap = MapState(state)
        else:
            self._state = self.map = self.map_factory.map(task)
            self.map.begin(state)

    def reader(self) -> Any:
        return ResultMap(self._state, self.show)

    def show(self, value: Any) -> Any:
        """Return the result for a stored value."""
        return (
            self.operation.result(value)
            if isinstance(self.operation, CombinerAggregator)
            else value
        )

    def keys(self, batch: Batch) -> Sequence[Row]:
        return list(self._groups.rows(batch))

    def run(self, batch: Batch) -> Batch:
        # All values are computed before the first one is stored. Each group is read and stored
        # once.
        keys, operation, fields = self._groups.keys(batch), self.operation, len(self._groups.places)
        if isinstance(operation, ReducerAggregator):
            return self._reduced(operation, keys, batch)
        fresh = (
            operation.fold(keys, *self._picked.columns(batch))
            if self._partial
            else combine_groups(operation, keys, batch, self._picked)
        )
        texts = texts_of_groups(list(fresh), fields)
        combine = operation.combine
        stored = zip(fresh.items(), self._state.get_texts(texts, _NONE), strict=True)
        values = {
            key: value if old is _NONE else combine(old, value) for (key, value), old in stored
        }
        self._state.put_texts(texts, list(values.values()))
        return by_group(keys, batch, values, fields, operation)

    def _reduced(self, operation: ReducerAggregator, keys: Sequence[Any], batch: Batch) -> Batch:
        groups, fields = list(dict.fromkeys(keys)), len(self._groups.places)
        texts = texts_of_groups(groups, fields)
        stored = zip(groups, self._state.get_texts(texts, _NONE), strict=True)
        begin = {key: operation.init() if old is _NONE else old for key, old in stored}
        values = reduce_groups(operation, keys, batch, self._picked, begin)
        self._state.put_texts(texts, list(values.values()))
        return by_group(keys, batch, values, fields, None)


class PersistUpdate:
    """The update of `partition_persist`, made by a `StateUpdater`."""

    watch: BufferWatch | None = None

    def __init__(self, updater: StateUpdater, picked: FieldSelection, output: Fields) -> None:
        self.operation: StateUpdater = updater
        self.output = output
        self._picked = picked

    map_factory = map = None

    def begin(self, state: KeyValueState, task: str) -> None:
        self._state = MapState(state)

    def reader(self) -> Any:
        return self._state

    def keys(self, batch: Batch) -> Sequence[Row]:
        # The updater reads the state itself.
        return []

    def run(self, batch: Batch) -> Batch:
        collector = make_emit_buffer(self.operation, len(self.output), self.watch)
        self.operation.update_state(self._state, list(self._picked.tuples(batch)), collector)
        collector.all_for(batch.all_positions()[-1])
        return Batch(collector.columns(), collector.at, len(collector.at))


class StateQuery:
    """The query of `state_query`."""

    watch: BufferWatch | None = None

    def __init__(
        self, function: QueryFunction, picked: FieldSelection, width: int, output: Fields
    ) -> None:
        """`width` is the number of added fields, `output` has all output fields."""
        self.operation: QueryFunction = function
        self.output = output
        self._picked, self._width = picked, width

    def begin(self, update: StateUpdate) -> None:
        """Receive the state, which `update` changes."""
        self._state = update.reader()

    def keys(self, batch: Batch) -> Sequence[Row]:
        """Return the keys whose values these rows need."""
        return list(self._picked.rows(batch))

    def run(self, batch: Batch) -> Batch:
        """Return the rows with the fields that the answers add."""
        return add_answers(
            self.operation, self._state, self._picked, self._width, batch, self.watch
        )
