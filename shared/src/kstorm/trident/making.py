"""Build the step for an operation once its input fields are known.

Each function returns the output fields and the step. It raises `TopologyError` for unknown fields.
"""

from typing import Any

from kstorm.errors import TopologyError
from kstorm.topology import Fields
from kstorm.trident.aggregators import (
    Aggregator,
    AnyAggregator,
    CombinerAggregator,
    ReducerAggregator,
)
from kstorm.trident.batches import Picked
from kstorm.trident.chained import OfParts
from kstorm.trident.external import MapFactory
from kstorm.trident.operations import Filter, Function, name_of
from kstorm.trident.own_state import AskStep, StateFactory
from kstorm.trident.plan import added, chosen
from kstorm.trident.state import QueryFunction
from kstorm.trident.steps import (
    AggregateStep,
    CallStep,
    CombineStep,
    FilterStep,
    FunctionStep,
    ProjectStep,
    Step,
)
from kstorm.trident.updates import AggregateUpdate


def filtering(keep: Filter, names: Fields | None, fields: Fields) -> tuple[Fields, Step]:
    """Filter tuples. The fields stay the same. If `names` is None, the filter receives all
    fields."""
    return fields, FilterStep(
        keep, Picked(fields if names is None else chosen(names, fields), fields)
    )


def adding(operation: Any, names: Fields, new: Fields, fields: Fields) -> tuple[Fields, Step]:
    """Add fields to each tuple."""
    picked = Picked(chosen(names, fields), fields)
    if isinstance(operation, Function):
        return added(new, fields), FunctionStep(operation, picked, len(new))
    return added(new, fields), CallStep(operation, picked, len(new), keeps=True)


def projecting(wanted: Fields, fields: Fields) -> tuple[Fields, Step]:
    """Keep only the wanted fields."""
    return wanted, ProjectStep(Picked(chosen(wanted, fields), fields))


def aggregating(
    aggregator: AnyAggregator,
    groups: Fields,
    inputs: Fields | None,
    outputs: Fields,
    fields: Fields,
    *,
    is_partial: bool = False,
) -> tuple[Fields, Step]:
    """Aggregate each group. The output is the group and its value. If `inputs` is None, the
    aggregator receives all fields."""
    picked = Picked(fields if inputs is None else chosen(inputs, fields), fields)
    own = Picked(chosen(groups, fields), fields)
    _check_outputs(aggregator, outputs)
    if isinstance(aggregator, OfParts):
        aggregator.bind(fields)
    return added(outputs, groups), AggregateStep(
        aggregator, own, picked, len(outputs), partial=is_partial
    )


def combining(
    aggregator: CombinerAggregator, groups: Fields, outputs: Fields, fields: Fields
) -> tuple[Fields, Step]:
    """Combine partial values. The output is the group and its value."""
    _check_outputs(aggregator, outputs)
    value = Fields(name for name in fields if name not in groups)
    return added(outputs, groups), CombineStep(
        aggregator, Picked(groups, fields), Picked(value, fields)
    )


def asking(
    factory: StateFactory, query: QueryFunction, names: Fields, new: Fields, fields: Fields
) -> tuple[Fields, Step]:
    """Add the answers of a static state to each tuple."""
    return added(new, fields), AskStep(
        factory, query, Picked(chosen(names, fields), fields), len(new)
    )


def updating(
    aggregator: CombinerAggregator | ReducerAggregator,
    groups: Fields,
    inputs: Fields | None,
    outputs: Fields,
    outside: MapFactory | None,
    fields: Fields,
    combined: bool,
) -> AggregateUpdate:
    """Return the update of a state.

    `combined` is true if tuples are partial values. `outside` is the external state, or None for
    the task's own.
    """
    own = Picked(chosen(groups, fields), fields)
    if combined:
        inputs = Fields(name for name in fields if name not in groups)
    picked = Picked(fields if inputs is None else chosen(inputs, fields), fields)
    _check_outputs(aggregator, outputs)
    return AggregateUpdate(
        aggregator, own, picked, added(outputs, groups), partial=combined, outside=outside
    )


def _check_outputs(aggregator: AnyAggregator, outputs: Fields) -> None:
    if not isinstance(aggregator, Aggregator) and len(outputs) != 1:
        raise TopologyError(
            f"{name_of(aggregator)} returns one value: name one output field, not {len(outputs)}"
        )
