"""How batches change a state, and how it is asked."""

from typing import Any, Protocol

from kstorm.topology import Fields, KeyValueState
from kstorm.trident.aggregators import CombinerAggregator, ReducerAggregator
from kstorm.trident.external import ExternalMap, MapFactory
from kstorm.trident.operations import Operation
from kstorm.trident.state import MapState, QueryFunction, ShownMap, StateUpdater
from kstorm.trident.steps import Batch, Gathered, Picked, Row, asked, combined, joined, reduced

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

    def keys(self, rows: list[Row]) -> list[Row]:
        """Whose values these rows need."""
        ...

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
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
        """`partial`: rows are the group's fields and a value that was combined upstream. `outside`: where the state is, if it is
        not the task's own."""
        self.operation: CombinerAggregator | ReducerAggregator = aggregator
        self.output = output
        self._groups, self._picked, self._partial, self.map_factory = groups, picked, partial, outside
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
        return self.operation.result(value) if isinstance(self.operation, CombinerAggregator) else value

    def keys(self, rows: list[Row]) -> list[Row]:
        """See `Update.keys`."""
        return [row[:-1] for row in rows] if self._partial else self._groups.of_all(rows)

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """All values are made before one is stored."""
        keys = self.keys(rows)
        last = dict(zip(keys, positions, strict=True))
        values = self._values(keys, rows)
        self._state.multi_put(list(values), list(values.values()))
        return [(*key, self.show(value)) for key, value in values.items()], [last[key] for key in values]

    def _values(self, keys: list[Row], rows: list[Row]) -> dict[Row, Any]:
        operation = self.operation
        if isinstance(operation, ReducerAggregator):
            return reduced(operation, keys, rows, self._picked, self._current)
        fresh = joined(operation, rows) if self._partial else combined(operation, keys, rows, self._picked)
        return {key: self._with_stored(operation, key, value) for key, value in fresh.items()}

    def _with_stored(self, operation: CombinerAggregator, key: Row, value: Any) -> Any:
        stored = self._state.get(key, _NONE)
        return value if stored is _NONE else operation.combine(stored, value)

    def _current(self, key: Row) -> Any:
        stored = self._state.get(key, _NONE)
        return self.operation.init() if stored is _NONE else stored  # type: ignore[call-arg]


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

    def keys(self, rows: list[Row]) -> list[Row]:
        """The updater knows them."""
        return []

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Update.run`."""
        gathered = Gathered(self.operation, len(self.output))
        gathered.position = positions[-1]
        self.operation.update_state(self._state, [self._picked.tuple(row) for row in rows], gathered)
        return gathered.batch


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

    def keys(self, rows: list[Row]) -> list[Row]:
        """See `Update.keys`."""
        return self._picked.of_all(rows)

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """The rows, each with what its answer adds."""
        return asked(self.operation, self._state, self._picked, self._width, rows, positions)
