"""Which tasks of a consumer get a tuple: the declarations. `kstorm.core.routing` carries them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kstorm.topology.fields import Fields


class TaskChooser(Protocol):
    """A `CustomStreamGrouping`, as far as a declaration has to know it."""

    def prepare(
        self, context: Any, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        """See `kstorm.topology.CustomStreamGrouping.prepare`."""
        ...

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """See `kstorm.topology.CustomStreamGrouping.choose_tasks`."""
        ...


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

    grouping: TaskChooser


ChoosingGrouping = (
    ShuffleGrouping
    | NoneGrouping
    | FieldsGrouping
    | PartialKeyGrouping
    | AllGrouping
    | GlobalGrouping
    | CustomGrouping
)
"""Those that choose the tasks; with the other one the emitter does."""

Grouping = ChoosingGrouping | DirectGrouping
