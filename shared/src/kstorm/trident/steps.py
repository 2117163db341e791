"""The steps that a stream's bolts apply to a batch, one after the other and without a hop in
between."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from kstorm.core.watched_buffers import BufferWatch, buffer_watch
from kstorm.errors import EmitError
from kstorm.topology import Config, TopologyContext
from kstorm.trident.aggregators import (
    Aggregator,
    AnyAggregator,
    CombinerAggregator,
    ReducerAggregator,
    results_of,
)
from kstorm.trident.batches import Batch, FieldSelection, key_columns
from kstorm.trident.emit_buffer import make_emit_buffer
from kstorm.trident.operations import Filter, Function, Operation, name_of, predicate_of
from kstorm.trident.state import QueryFunction
from kstorm.trident.tuple import TridentTuple


class Step:
    """Transforms a batch."""

    operation: Operation | None = None
    """Prepared and cleaned up with the task."""
    watch: BufferWatch | None = None

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Prepare the operation. Called in each task, before everything else."""
        self.watch = buffer_watch(context.resources)
        if self.operation is not None:
            self.operation.prepare(config, context)

    def cleanup(self) -> None:
        if self.operation is not None:
            self.operation.cleanup()

    def run(self, batch: Batch) -> Batch:
        """Return the transformed batch. `batch` is not empty."""
        raise NotImplementedError


class FunctionStep(Step):
    """`each` with a `Function`."""

    def __init__(self, function: Function, picked: FieldSelection, width: int) -> None:
        self.operation: Function = function
        self._picked, self._width = picked, width

    def run(self, batch: Batch) -> Batch:
        collector = make_emit_buffer(self.operation, self._width, self.watch)
        execute, all_for = self.operation.execute, collector.all_for
        for place, tuple in enumerate(self._picked.tuples(batch)):
            execute(tuple, collector)
            all_for(place)
        return batch.taken(collector.at, collector.columns())


class CallStep(Step):
    """`each`, `map` and `flat_map` with a callable, which receives the values of the input
    fields."""

    def __init__(
        self,
        function: Callable[..., Any],
        picked: FieldSelection,
        width: int,
        *,
        many: bool = True,
        keeps: bool = False,
    ) -> None:
        """`many` is true if the callable returns several results. With `keeps`, results are added
        to the input fields."""
        self._function, self._picked, self._width, self._many, self._keeps = (
            function,
            picked,
            width,
            many,
            keeps,
        )

    def run(self, batch: Batch) -> Batch:
        function, width, watch = self._function, self._width, self.watch
        collector, single = make_emit_buffer(function, width, watch), width == 1 and watch is None
        if not self._many and single:
            return batch.replaced([[function(*values) for values in self._picked.rows(batch)]])
        for place, values in enumerate(self._picked.rows(batch)):
            results = function(*values)
            results = self._several(results) if self._many else (results,)
            if single:
                collector.found += results
            else:
                for result in results:
                    collector.emit((result,) if self._width == 1 else result)
            collector.all_for(place)
        found = batch.taken(collector.at, collector.columns())
        return found if self._keeps else Batch(collector.columns(), found.positions, found.size)

    def _several(self, found: Any) -> Any:
        if isinstance(found, str | bytes | Mapping):
            raise EmitError(
                f"{name_of(self._function)} returned {type(found).__name__}, where several "
                "results are expected: return a list, or yield them"
            )
        return () if found is None else found


class FilterStep(Step):
    """`each` and `filter` with a `Filter`."""

    def __init__(self, keep: Filter, picked: FieldSelection) -> None:
        self.operation: Filter = keep
        self._picked = picked

    def run(self, batch: Batch) -> Batch:
        function, is_keep = predicate_of(self.operation), self.operation.is_keep
        kept = (
            [is_keep(tuple) for tuple in self._picked.tuples(batch)]
            if function is None
            else [function(*values) for values in self._picked.rows(batch)]
        )
        at = list(compress(range(batch.size), kept))
        return batch if len(at) == batch.size else batch.taken(at)


class PeekStep(Step):
    """`peek`: passes each tuple to a callable."""

    def __init__(self, function: Callable[[TridentTuple], object], picked: FieldSelection) -> None:
        self._function, self._picked = function, picked

    def run(self, batch: Batch) -> Batch:
        for tuple in self._picked.tuples(batch):
            self._function(tuple)
        return batch


class ProjectStep(Step):
    """`project`: keeps some of the fields, in the given order."""

    def __init__(self, picked: FieldSelection) -> None:
        self._picked = picked

    def run(self, batch: Batch) -> Batch:
        return batch.replaced(self._picked.columns(batch))


class AggregateStep(Step):
    """Emits one result for each group of a batch, or the output of an `Aggregator`.

    A result and all of its tuples are in the same transaction. So anchoring it to the last of these
    tuples is enough.
    """

    def __init__(
        self,
        aggregator: AnyAggregator,
        groups: FieldSelection,
        picked: FieldSelection,
        width: int,
        *,
        partial: bool = False,
    ) -> None:
        """With `partial`, values are combined later, so their results are not computed here."""
        self.operation: AnyAggregator = aggregator
        self.groups, self.picked = groups, picked
        """The group fields and the aggregator's input fields."""
        self._width, self._partial = width, partial

    def run(self, batch: Batch) -> Batch:
        aggregator = self.operation
        if isinstance(aggregator, Aggregator):
            return self._emitted(aggregator, batch)
        keys = self.groups.keys(batch)
        if isinstance(aggregator, ReducerAggregator):
            found = reduce_groups(
                aggregator,
                keys,
                batch,
                self.picked,
                {key: aggregator.init() for key in dict.fromkeys(keys)},
            )
        else:
            found = combine_groups(aggregator, keys, batch, self.picked)
        shown = (
            aggregator if isinstance(aggregator, CombinerAggregator) and not self._partial else None
        )
        return by_group(keys, batch, found, len(self.groups.places), shown)

    def _emitted(self, aggregator: Aggregator, batch: Batch) -> Batch:
        keys = self.groups.keys(batch)
        groups = dict[Any, list[TridentTuple]]()
        for key, tuple in zip(keys, self.picked.tuples(batch), strict=True):
            groups.setdefault(key, []).append(tuple)
        collector = make_emit_buffer(aggregator, self._width, self.watch)
        for place, found in enumerate(groups.values()):
            value = aggregator.init(None, collector)
            for tuple in found:
                aggregator.aggregate(value, tuple, collector)
            aggregator.complete(value, collector)
            collector.all_for(place)
        columns = key_columns(list(groups), len(self.groups.places))
        return Batch(columns, last_positions(keys, batch, groups), len(groups)).taken(
            collector.at, collector.columns()
        )


class CombineStep(Step):
    """Combines values that were combined upstream. A row has the fields of the group and the
    value."""

    def __init__(
        self, aggregator: CombinerAggregator, groups: FieldSelection, value: FieldSelection
    ) -> None:
        self.operation: CombinerAggregator = aggregator
        self._groups, self._value = groups, value

    def run(self, batch: Batch) -> Batch:
        keys = self._groups.keys(batch)
        found = self.operation.fold(keys, *self._value.columns(batch))
        return by_group(keys, batch, found, len(self._groups.places), self.operation)


def add_answers(
    function: QueryFunction,
    state: Any,
    picked: FieldSelection,
    width: int,
    batch: Batch,
    watch: BufferWatch | None,
) -> Batch:
    """Return the rows with the fields that a state's answers add."""
    tuples = list(picked.tuples(batch))
    collector = make_emit_buffer(function, width, watch)
    answers = function.batch_retrieve(state, tuples)
    for place, (tuple, answer) in enumerate(zip(tuples, answers, strict=True)):
        function.execute(tuple, answer, collector)
        collector.all_for(place)
    return batch.taken(collector.at, collector.columns())


def combine_groups(
    aggregator: CombinerAggregator, keys: Sequence[Any], batch: Batch, picked: FieldSelection
) -> dict[Any, Any]:
    """Return the value of each group."""
    return aggregator.fold_columns(keys, picked.columns(batch), lambda: picked.tuples(batch))


def reduce_groups(
    aggregator: ReducerAggregator,
    keys: Sequence[Any],
    batch: Batch,
    picked: FieldSelection,
    begin: dict[Any, Any],
) -> dict[Any, Any]:
    """Return the value of each group, starting with the values in `begin`, which is changed."""
    reduce = aggregator.reduce
    for key, tuple in zip(keys, picked.tuples(batch), strict=True):
        begin[key] = reduce(begin[key], tuple)
    return begin


def by_group(
    keys: Sequence[Any],
    batch: Batch,
    found: dict[Any, Any],
    fields: int,
    shown: CombinerAggregator | None,
) -> Batch:
    """Return a row per group with its fields and its value, anchored to the last of its tuples.

    `keys` are the group keys of the batch's rows, with `fields` fields each. With `shown`, values
    are replaced by that aggregator's results.
    """
    values = list(found.values())
    columns = [
        *key_columns(list(found), fields),
        values if shown is None else results_of(shown, values),
    ]
    return Batch(columns, last_positions(keys, batch, found), len(values))


def last_positions(keys: Sequence[Any], batch: Batch, groups: Iterable[Any]) -> list[int]:
    """Return the anchor of each group's last row. `keys` are the group keys of the batch's rows."""
    last = dict(zip(keys, batch.all_positions(), strict=True))
    return [last[group] for group in groups]


def run_all(steps: Sequence[Step], batch: Batch) -> Batch:
    """Run the steps in order, until no rows are left."""
    for step in steps:
        if not batch.size:
            break
        batch = step.run(batch)
    return batch
