"""Which tasks of a consumer get a tuple: the declarations. `kstorm.core.routing` carries them out."""

from dataclasses import dataclass

from kstorm.topology.components import CustomStreamGrouping
from kstorm.topology.fields import Fields


@dataclass(frozen=True, slots=True)
class ShuffleGrouping:
    """To the tasks in turn: each gets an equal share."""


@dataclass(frozen=True, slots=True)
class NoneGrouping:
    """The user does not care; the same as shuffle, as in Storm."""


@dataclass(frozen=True, slots=True)
class FieldsGrouping:
    """To the task that the values of some fields hash to: equal values, same task."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class PartialKeyGrouping:
    """As fields grouping, but to the less loaded of two tasks per key: balances skewed keys."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class AllGrouping:
    """To every task."""


@dataclass(frozen=True, slots=True)
class GlobalGrouping:
    """All to the task with the lowest id."""


@dataclass(frozen=True, slots=True)
class DirectGrouping:
    """To the task that the emitter names; the stream must be declared direct."""


@dataclass(frozen=True, slots=True)
class CustomGrouping:
    """To the tasks that the user's own object chooses."""

    grouping: CustomStreamGrouping


Grouping = (
    ShuffleGrouping
    | NoneGrouping
    | FieldsGrouping
    | PartialKeyGrouping
    | AllGrouping
    | GlobalGrouping
    | DirectGrouping
    | CustomGrouping
)
