"""What a stream's bolts do to the tuples of a batch, one step after the other, without a hop between.

A batch is rows, and for each row the position of the tuple that it comes from, which it is anchored to.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kstorm.errors import EmitError
from kstorm.topology import Config, Fields, TopologyContext
from kstorm.trident.aggregators import Aggregator, AnyAggregator, CombinerAggregator, ReducerAggregator
from kstorm.trident.operations import Filter, Function, Operation, name_of
from kstorm.trident.state import QueryFunction
from kstorm.trident.tuple import TridentTuple

Row = tuple[Any, ...]
Batch = tuple[list[Row], list[int]]


class Picked:
    """Some fields of a row, as an operation is given them."""

    def __init__(self, fields: Fields, of: Fields) -> None:
        self.fields = fields
        self.places = [of.index(name) for name in fields]
        """Where they stand."""

    def values(self, row: Row) -> Row:
        """Their values."""
        return tuple([row[place] for place in self.places])

    def of_all(self, rows: Sequence[Row]) -> list[Row]:
        """The same of many rows."""
        if len(self.places) == 1:
            (place,) = self.places
            return [(row[place],) for row in rows]
        return [self.values(row) for row in rows]

    def tuple(self, row: Row) -> TridentTuple:
        """The same as an object."""
        return TridentTuple(self.values(row), self.fields)


class Gathered:
    """The collector of functions and aggregators."""

    def __init__(self, operation: object, width: int) -> None:
        self._operation, self._width = operation, width
        self.rows: list[Row] = []
        self.positions: list[int] = []
        self.before: Row = ()
        """What comes before the values that are emitted."""
        self.position = 0

    def emit(self, values: Sequence[Any]) -> None:
        """See `TridentCollector.emit`."""
        if len(values) != self._width:
            raise EmitError(
                f"{name_of(self._operation)} emitted {len(values)} values, and has {self._width} output fields: emit one each"
            )
        self.rows.append((*self.before, *values))
        self.positions.append(self.position)

    @property
    def batch(self) -> Batch:
        """What was emitted."""
        return self.rows, self.positions


class Step:
    """Makes a batch of a batch."""

    operation: Operation | None = None
    """Whose life is the task's."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """In each task, before anything else."""
        if self.operation is not None:
            self.operation.prepare(config, context)

    def cleanup(self) -> None:
        """When the task leaves."""
        if self.operation is not None:
            self.operation.cleanup()

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """The batch is not empty."""
        raise NotImplementedError


class FunctionStep(Step):
    """`each` with a `Function`."""

    def __init__(self, function: Function, picked: Picked, width: int) -> None:
        self.operation: Function = function
        self._picked, self._width = picked, width

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        gathered = Gathered(self.operation, self._width)
        execute, tuple = self.operation.execute, self._picked.tuple
        for row, position in zip(rows, positions, strict=True):
            gathered.before, gathered.position = row, position
            execute(tuple(row), gathered)
        return gathered.batch


class CallStep(Step):
    """`each`, `map` and `flat_map` with a callable, which is given the values of its input fields."""

    def __init__(
        self, function: Callable[..., Any], picked: Picked, width: int, *, many: bool = True, keeps: bool = False
    ) -> None:
        """`many`: whether it returns several results. `keeps`: whether they are added to what was there."""
        self._function, self._picked, self._width, self._many, self._keeps = function, picked, width, many, keeps

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        function, values, keeps = self._function, self._picked.values, self._keeps
        found: list[Row] = []
        sources: list[int] = []
        for row, position in zip(rows, positions, strict=True):
            results = function(*values(row))
            results = self._several(results) if self._many else (results,)
            before = row if keeps else ()
            new = [(*before, result) for result in results] if self._width == 1 else self._wide(before, results)
            found += new
            sources += [position] * len(new)
        return found, sources

    def _several(self, found: Any) -> Any:
        if isinstance(found, str | bytes):
            raise EmitError(
                f"{name_of(self._function)} returned {type(found).__name__}, where several results are expected: return a "
                "list, or yield them"
            )
        return () if found is None else found

    def _wide(self, before: Row, results: Any) -> list[Row]:
        gathered = Gathered(self._function, self._width)
        gathered.before = before
        for result in results:
            gathered.emit(result)
        return gathered.rows


class FilterStep(Step):
    """`each` and `filter` with a `Filter`."""

    def __init__(self, keep: Filter, picked: Picked) -> None:
        self.operation: Filter = keep
        self._picked = picked

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        is_keep, tuple = self.operation.is_keep, self._picked.tuple
        kept = [each for each in zip(rows, positions, strict=True) if is_keep(tuple(each[0]))]
        return [row for row, _ in kept], [position for _, position in kept]


class PeekStep(Step):
    """`peek`: shows each tuple to a callable."""

    def __init__(self, function: Callable[[TridentTuple], object], picked: Picked) -> None:
        self._function, self._picked = function, picked

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        for row in rows:
            self._function(self._picked.tuple(row))
        return rows, positions


class ProjectStep(Step):
    """`project`: leaves some fields, in their order."""

    def __init__(self, picked: Picked) -> None:
        self._picked = picked

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        return [self._picked.values(row) for row in rows], positions


class AggregateStep(Step):
    """One result for each group of a batch, or what an `Aggregator` emits. What it is made of is in the transaction that it is
    in; so it may be anchored to the last of its tuples alone."""

    def __init__(
        self, aggregator: AnyAggregator, groups: Picked, picked: Picked, width: int, *, partial: bool = False
    ) -> None:
        """`partial`: values are combined with others afterwards, so no result is made of them."""
        self.operation: AnyAggregator = aggregator
        self.groups, self.picked = groups, picked
        """What it groups by, and what the aggregator is given."""
        self._width, self._partial = width, partial

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        aggregator = self.operation
        if isinstance(aggregator, Aggregator):
            return self._emitted(aggregator, rows, positions)
        keys = self.groups.of_all(rows)
        if isinstance(aggregator, ReducerAggregator):
            values = reduced(aggregator, keys, rows, self.picked, lambda key: aggregator.init())
        else:
            values = combined(aggregator, keys, rows, self.picked)
            if not self._partial:
                values = {key: aggregator.result(value) for key, value in values.items()}
        last = dict(zip(keys, positions, strict=True))
        return [(*key, value) for key, value in values.items()], [last[key] for key in values]

    def _emitted(self, aggregator: Aggregator, rows: list[Row], positions: list[int]) -> Batch:
        gathered, groups = Gathered(aggregator, self._width), dict[Row, list[tuple[Row, int]]]()
        for row, position in zip(rows, positions, strict=True):
            groups.setdefault(self.groups.values(row), []).append((row, position))
        for key, found in groups.items():
            gathered.before, gathered.position = key, found[-1][1]
            value = aggregator.init(None, gathered)
            for row, _ in found:
                aggregator.aggregate(value, self.picked.tuple(row), gathered)
            aggregator.complete(value, gathered)
        return gathered.batch


class CombineStep(Step):
    """Combines values that were combined upstream: rows are the fields of their group, and the value."""

    def __init__(self, aggregator: CombinerAggregator) -> None:
        self.operation: CombinerAggregator = aggregator

    def run(self, rows: list[Row], positions: list[int]) -> Batch:
        """See `Step.run`."""
        values = joined(self.operation, rows)
        last = {row[:-1]: position for row, position in zip(rows, positions, strict=True)}
        result = self.operation.result
        return [(*key, result(value)) for key, value in values.items()], [last[key] for key in values]


def asked(
    function: QueryFunction, state: Any, picked: Picked, width: int, rows: list[Row], positions: list[int]
) -> Batch:
    """The rows, each with what a state's answer adds."""
    tuples = [picked.tuple(row) for row in rows]
    gathered = Gathered(function, width)
    for row, position, tuple, answer in zip(
        rows, positions, tuples, function.batch_retrieve(state, tuples), strict=True
    ):
        gathered.before, gathered.position = row, position
        function.execute(tuple, answer, gathered)
    return gathered.batch


def combined(aggregator: CombinerAggregator, keys: list[Row], rows: list[Row], picked: Picked) -> dict[Row, Any]:
    """The value of each group of these rows."""
    return aggregator.fold_rows(keys, rows, picked.places, picked.tuple)


def joined(aggregator: CombinerAggregator, rows: list[Row]) -> dict[Row, Any]:
    """The value of each group, of rows that have a value already."""
    return aggregator.fold([row[:-1] for row in rows], [row[-1] for row in rows])


def reduced(
    aggregator: ReducerAggregator, keys: list[Row], rows: list[Row], picked: Picked, begin: Callable[[Row], Any]
) -> dict[Row, Any]:
    """The value of each group, which begins with what `begin` says of its key."""
    found = dict[Row, Any]()
    for key, row in zip(keys, rows, strict=True):
        current = found[key] if key in found else begin(key)
        found[key] = aggregator.reduce(current, picked.tuple(row))
    return found


def run_all(steps: Sequence[Step], rows: list[Row], positions: list[int]) -> Batch:
    """One step after the other, until nothing is left."""
    for step in steps:
        if not rows:
            break
        rows, positions = step.run(rows, positions)
    return rows, positions
