"""How batches change a state, and how it is asked."""

from collections.abc import Sequence
from typing import Any, Protocol

from kstorm.topology import Fields, KeyValueState
from kstorm.trident.aggregators import CombinerAggregator, ReducerAggregator
from kstorm.trident.batches import Batch, Picked, Row
from kstorm.trident.emitted import emitted
from kstorm.trident.external import ExternalMap, MapFactory
from kstorm.trident.operations import Operation
from kstorm.trident.state import MapState, QueryFunction, ShownMap, StateUpdater, texts_of_groups
from kstorm.trident.steps import asked, by_group, combined, reduced

_NONE: Any = object()


class Update(Protocol):
    """What a state does with a batch of its stream."""

    @property
    def operation(self) -> Operation:
        """Whose life is the task's."""
        ...

    @property
    def output(self) -> Fields:
        """The fields of what comes out."""
        ...

    @property
    def map_factory(self) -> object:
        """What makes a state outside; None if the state is the task's own."""
        ...

    @property
    def map(self) -> Any:
        """The task's part of a state outside: an `ExternalMap`, or what is used as one."""
        ...

    def begin(self, state: KeyValueState, task: str) -> None:
        """The task has its own state. `task` names it, over all of its lives."""
        ...

    def reader(self) -> Any:
        """What a query is given as the state."""
        ...

    def keys(self, batch: Batch) -> Sequence[Row]:
        """Whose values these rows need."""
        ...

    def run(self, batch: Batch) -> Batch:
        """Changes the state; what comes out of it. Of a state outside, the values are loaded."""
        ...


class AggregateUpdate:
    """Of `persistent_aggregate`: each group's value is one with what it was."""

    def __init__(
        self,
        aggregator: CombinerAggregator | ReducerAggregator,
        groups: Picked,
        picked: Picked,
        output: Fields,
        *,
        partial: bool,
        outside: MapFactory | None = None,
    ) -> None:
        """`partial`: what is picked is a value that was combined upstream. `outside`: where the state is, if it is
        not the task's own."""
        self.operation: CombinerAggregator | ReducerAggregator = aggregator
        self.output = output
        self._groups, self._picked, self._partial, self.map_factory = (
            groups,
            picked,
            partial,
            outside,
        )
        self.map: ExternalMap | None = None
        """The task's part of a state outside."""

    def begin(self, state: KeyValueState, task: str) -> None:
        """See `Update.begin`."""
        if self.map_factory is None:
            self._state: MapState | ExternalMap = MapState(state)
        else:
            self._state = self.map = self.map_factory.map(task)
            self.map.begin(state)

    def reader(self) -> Any:
        """See `Update.reader`."""
        return ShownMap(self._state, self.show)

    def show(self, value: Any) -> Any:
        """What a reader is given for a stored value."""
        return (
            self.operation.result(value)
            if isinstance(self.operation, CombinerAggregator)
            else value
        )

    def keys(self, batch: Batch) -> Sequence[Row]:
        """See `Update.keys`."""
        return list(self._groups.rows(batch))

    def run(self, batch: Batch) -> Batch:
        """All values are made before one is stored. Each group is asked for and stored once."""
        keys, operation, fields = self._groups.keys(batch), self.operation, len(self._groups.places)
        if isinstance(operation, ReducerAggregator):
            return self._reduced(operation, keys, batch)
        fresh = (
            operation.fold(keys, *self._picked.columns(batch))
            if self._partial
            else combined(operation, keys, batch, self._picked)
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
        values = reduced(operation, keys, batch, self._picked, begin)
        self._state.put_texts(texts, list(values.values()))
        return by_group(keys, batch, values, fields, None)


class PersistUpdate:
    """Of `partition_persist`: what a `StateUpdater` does."""

    def __init__(self, updater: StateUpdater, picked: Picked, output: Fields) -> None:
        self.operation: StateUpdater = updater
        self.output = output
        self._picked = picked

    map_factory = map = None

    def begin(self, state: KeyValueState, task: str) -> None:
        """See `Update.begin`."""
        self._state = MapState(state)

    def reader(self) -> Any:
        """See `Update.reader`."""
        return self._state

    def keys(self, batch: Batch) -> Sequence[Row]:
        """The updater knows them."""
        return []

    def run(self, batch: Batch) -> Batch:
        """See `Update.run`."""
        collector = emitted(self.operation, len(self.output))
        self.operation.update_state(self._state, list(self._picked.tuples(batch)), collector)
        collector.all_for(batch.all_positions()[-1])
        return Batch(collector.columns(), collector.at, len(collector.at))


class Query:
    """Of `state_query`."""

    def __init__(self, function: QueryFunction, picked: Picked, width: int, output: Fields) -> None:
        """`width`: how many fields it adds; `output`: all that come out."""
        self.operation: QueryFunction = function
        self.output = output
        self._picked, self._width = picked, width

    def begin(self, update: Update) -> None:
        """The task has its state, which `update` changes."""
        self._state = update.reader()

    def keys(self, batch: Batch) -> Sequence[Row]:
        """See `Update.keys`."""
        return list(self._picked.rows(batch))

    def run(self, batch: Batch) -> Batch:
        """The rows, each with what its answer adds."""
        return asked(self.operation, self._state, self._picked, self._width, batch)
