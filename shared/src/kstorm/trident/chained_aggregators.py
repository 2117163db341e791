"""Several aggregators over the same tuples, with their results in one tuple (Storm's
`chainedAgg`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Final

from kstorm.core.watched_buffers import BufferWatch, buffer_watch
from kstorm.topology import Config, Fields, TopologyContext
from kstorm.trident.aggregators import (
    Aggregator,
    AnyAggregator,
    Columns,
    CombinerAggregator,
    ReducerAggregator,
    Tuples,
)
from kstorm.trident.batches import Batch, FieldSelection
from kstorm.trident.emit_buffer import make_emit_buffer
from kstorm.trident.operations import TridentCollector, name_of
from kstorm.trident.plan import add_fields, select_fields
from kstorm.trident.steps import Step
from kstorm.trident.tuple import TridentTuple

_NONE: Final[Any] = object()


@dataclass
class ChainedPart:
    """One aggregator of a chain."""

    aggregator: AnyAggregator
    inputs: Fields | None
    """None means all fields."""
    outputs: Fields
    picked: FieldSelection = field(default_factory=lambda: FieldSelection(Fields(), Fields()))
    """Its input fields, once the stream's fields are known."""

    def tuple(self, whole: TridentTuple) -> TridentTuple:
        """Return the aggregator's input fields of a tuple that has all fields."""
        return self.picked.tuple((*whole.values,))

    def tuples(self, whole: Tuples) -> Iterable[TridentTuple]:
        return map(self.tuple, whole())


class ChainedAggregation:
    """The aggregators of a chain as one."""

    _watch: BufferWatch | None = None

    def __init__(self, parts: Sequence[ChainedPart]) -> None:
        self._parts = [ChainedPart(part.aggregator, part.inputs, part.outputs) for part in parts]
        self.__name__ = "+".join(name_of(part.aggregator) for part in parts)

    def bind(self, fields: Fields) -> None:
        """Set the fields of the stream. Raises `TopologyError` if an input field is missing."""
        for part in self._parts:
            part.picked = FieldSelection(
                fields if part.inputs is None else select_fields(part.inputs, fields), fields
            )

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._watch = buffer_watch(context.resources)
        for part in self._parts:
            part.aggregator.prepare(config, context)

    def cleanup(self) -> None:
        for part in self._parts:
            part.aggregator.cleanup()


class ChainedCombiner(ChainedAggregation, CombinerAggregator):
    """Combines lists with one value per aggregator, so that they can be combined before they are
    sent."""

    @property
    def _combiners(self) -> list[CombinerAggregator]:
        return [
            part.aggregator
            for part in self._parts
            if isinstance(part.aggregator, CombinerAggregator)
        ]

    def init(self, tuple: TridentTuple) -> list[Any]:
        return [
            each.init(part.tuple(tuple))
            for each, part in zip(self._combiners, self._parts, strict=True)
        ]

    def combine(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [
            each.combine(*both)
            for each, both in zip(self._combiners, zip(one, other, strict=True), strict=True)
        ]

    def zero(self) -> list[Any]:
        return [each.zero() for each in self._combiners]

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, Any]:
        found = [
            each.fold_columns(
                keys, [columns[place] for place in part.picked.places], partial(part.tuples, tuples)
            )
            for each, part in zip(self._combiners, self._parts, strict=True)
        ]
        return {key: [values[key] for values in found] for key in found[0]}

    def result(self, value: list[Any]) -> list[Any]:
        return [each.result(part) for each, part in zip(self._combiners, value, strict=True)]


class ChainedAggregator(ChainedAggregation, Aggregator):
    """Runs aggregators of any kind. Emits each combination of their outputs."""

    def init(self, batch_id: Any, collector: TridentCollector) -> Any:
        """Return each aggregator with its value and its own collector."""
        begun = []
        for part in self._parts:
            one = (
                part.aggregator
                if isinstance(part.aggregator, Aggregator)
                else _Emits(part.aggregator)
            )
            own = make_emit_buffer(part.aggregator, len(part.outputs), self._watch)
            begun.append((one, one.init(batch_id, own), own))
        return begun

    def aggregate(self, value: Any, tuple: TridentTuple, collector: TridentCollector) -> None:
        for (one, begun, own), part in zip(value, self._parts, strict=True):
            one.aggregate(begun, part.tuple(tuple), own)

    def complete(self, value: Any, collector: TridentCollector) -> None:
        for one, begun, own in value:
            one.complete(begun, own)
        for rows in product(*(zip(*own.columns(), strict=True) for _, _, own in value)):
            collector.emit([each for row in rows for each in row])


class _Emits(Aggregator):
    """Makes an `Aggregator` of a combiner or a reducer."""

    def __init__(self, of: CombinerAggregator | ReducerAggregator) -> None:
        self._of = of

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return [self._of.init() if isinstance(self._of, ReducerAggregator) else _NONE]

    def aggregate(self, value: list[Any], tuple: TridentTuple, collector: TridentCollector) -> None:
        if isinstance(self._of, ReducerAggregator):
            value[0] = self._of.reduce(value[0], tuple)
        else:
            fresh = self._of.init(tuple)
            value[0] = fresh if value[0] is _NONE else self._of.combine(value[0], fresh)

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit(
            [self._of.result(value[0]) if isinstance(self._of, CombinerAggregator) else value[0]]
        )


class _SpreadStep(Step):
    """Splits the list in the last field into one field per value."""

    def run(self, batch: Batch) -> Batch:
        *groups, values = batch.columns()
        return batch.replaced([*groups, *(list(column) for column in zip(*values, strict=True))])


def spread(outputs: Fields, fields: Fields) -> tuple[Fields, Step]:
    return add_fields(outputs, Fields(*list(fields)[:-1])), _SpreadStep()
