"""Groupings: declarations of which consumer tasks receive a tuple.

`kstorm.core.routing` implements them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kstorm.topology.fields import Fields


class TaskChooser(Protocol):
    """The interface of a `CustomStreamGrouping`."""

    def prepare(
        self, context: Any, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None: ...

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class ShuffleGrouping:
    """Each task in turn, so that all get an equal share."""


@dataclass(frozen=True, slots=True)
class NoneGrouping:
    """No preference. The same as shuffle, as in Storm."""


@dataclass(frozen=True, slots=True)
class FieldsGrouping:
    """The task given by a hash of some fields: equal values go to the same task."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class PartialKeyGrouping:
    """Like fields grouping, but the less loaded of two tasks per key. Balances skewed keys."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class AllGrouping:
    """Every task."""


@dataclass(frozen=True, slots=True)
class GlobalGrouping:
    """Always the task with the lowest id."""


@dataclass(frozen=True, slots=True)
class DirectGrouping:
    """The task that the emitter names. The stream must be declared direct."""


@dataclass(frozen=True, slots=True)
class CustomGrouping:
    """The tasks that a user-defined object chooses."""

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
"""Groupings that choose the tasks. With a `DirectGrouping`, the emitter does."""

Grouping = ChoosingGrouping | DirectGrouping
