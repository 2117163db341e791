"""Build the step for an operation once its input fields are known.

Each function returns the output fields and the step. It raises `TopologyError` for unknown fields.
"""

from collections.abc import Callable
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import takes
from kstorm.topology import Fields
from kstorm.trident.aggregators import (
    Aggregator,
    AnyAggregator,
    CombinerAggregator,
    ReducerAggregator,
)
from kstorm.trident.batches import FieldSelection
from kstorm.trident.chained_aggregators import ChainedAggregation
from kstorm.trident.custom_state import StateFactory, StaticQueryStep
from kstorm.trident.external import MapFactory
from kstorm.trident.operations import Filter, Function, name_of, predicate_of
from kstorm.trident.plan import add_fields, select_fields
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


def filter_step(keep: Filter, names: Fields | None, fields: Fields) -> tuple[Fields, Step]:
    """Filter tuples. The fields stay the same. If `names` is None, the filter receives all
    fields."""
    predicate = predicate_of(keep)
    if predicate is not None:
        check_takes(predicate, fields if names is None else names)
    return fields, FilterStep(
        keep, FieldSelection(fields if names is None else select_fields(names, fields), fields)
    )


def adding_step(operation: Any, names: Fields, new: Fields, fields: Fields) -> tuple[Fields, Step]:
    """Add fields to each tuple."""
    picked = FieldSelection(select_fields(names, fields), fields)
    if isinstance(operation, Function):
        return add_fields(new, fields), FunctionStep(operation, picked, len(new))
    check_takes(operation, names)
    return add_fields(new, fields), CallStep(operation, picked, len(new), keeps=True)


def project_step(wanted: Fields, fields: Fields) -> tuple[Fields, Step]:
    """Keep only the wanted fields."""
    return wanted, ProjectStep(FieldSelection(select_fields(wanted, fields), fields))


def aggregate_step(
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
    picked = FieldSelection(fields if inputs is None else select_fields(inputs, fields), fields)
    own = FieldSelection(select_fields(groups, fields), fields)
    check_outputs(aggregator, outputs)
    if isinstance(aggregator, ChainedAggregation):
        aggregator.bind(fields)
    return add_fields(outputs, groups), AggregateStep(
        aggregator, own, picked, len(outputs), partial=is_partial
    )


def combine_step(
    aggregator: CombinerAggregator, groups: Fields, outputs: Fields, fields: Fields
) -> tuple[Fields, Step]:
    """Combine partial values. The output is the group and its value."""
    check_outputs(aggregator, outputs)
    value = Fields(name for name in fields if name not in groups)
    return add_fields(outputs, groups), CombineStep(
        aggregator, FieldSelection(groups, fields), FieldSelection(value, fields)
    )


def static_query_step(
    factory: StateFactory, query: QueryFunction, names: Fields, new: Fields, fields: Fields
) -> tuple[Fields, Step]:
    """Add the answers of a static state to each tuple."""
    return add_fields(new, fields), StaticQueryStep(
        factory, query, FieldSelection(select_fields(names, fields), fields), len(new)
    )


def state_update(
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
    own = FieldSelection(select_fields(groups, fields), fields)
    if combined:
        inputs = Fields(name for name in fields if name not in groups)
    picked = FieldSelection(fields if inputs is None else select_fields(inputs, fields), fields)
    check_outputs(aggregator, outputs)
    return AggregateUpdate(
        aggregator, own, picked, add_fields(outputs, groups), partial=combined, outside=outside
    )


def check_takes(function: Callable[..., object], fields: Fields) -> None:
    """Raise `TopologyError` if a function cannot take the values of these fields."""
    if not takes(function, len(fields)):
        raise TopologyError(
            f"{name_of(function)} cannot be called with the {len(fields)} values of "
            f"{', '.join(fields) or 'no fields'}: give a function with one argument for each field"
        )


def check_outputs(aggregator: AnyAggregator, outputs: Fields) -> None:
    if not isinstance(aggregator, Aggregator) and len(outputs) != 1:
        raise TopologyError(
            f"{name_of(aggregator)} returns one value: name one output field, not {len(outputs)}"
        )
