"""Makes what carries an operation out, once the fields are known that come to it.

Each function gives the fields that come out, and the step; and raises `TopologyError` on fields that there are not.
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
    """The same fields. `names`: None stands for all."""
    return fields, FilterStep(
        keep, Picked(fields if names is None else chosen(names, fields), fields)
    )


def adding(operation: Any, names: Fields, new: Fields, fields: Fields) -> tuple[Fields, Step]:
    """The fields with new ones."""
    picked = Picked(chosen(names, fields), fields)
    if isinstance(operation, Function):
        return added(new, fields), FunctionStep(operation, picked, len(new))
    return added(new, fields), CallStep(operation, picked, len(new), keeps=True)


def projecting(wanted: Fields, fields: Fields) -> tuple[Fields, Step]:
    """Those that are wanted."""
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
    """The group and its value. `inputs`: None stands for all."""
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
    """Of tuples that are parts: the group and its value."""
    _check_outputs(aggregator, outputs)
    value = Fields(name for name in fields if name not in groups)
    return added(outputs, groups), CombineStep(
        aggregator, Picked(groups, fields), Picked(value, fields)
    )


def asking(
    factory: StateFactory, query: QueryFunction, names: Fields, new: Fields, fields: Fields
) -> tuple[Fields, Step]:
    """The fields with what a static state adds."""
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
    """What a state does. `combined`: whether tuples are parts; `outside`: where it is, if it is not the task's own."""
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
            f"{name_of(aggregator)} gives one value: name one output field, not {len(outputs)}"
        )
