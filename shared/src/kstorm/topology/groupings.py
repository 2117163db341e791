"""Groupings: declarations of which consumer tasks receive a tuple.

Each class declares the facts that other parts of kstorm need: its name, whether it groups by
fields, and whether it separates equal values. Flux's `PARTIAL_KEY` and the method
`partial_key_grouping` of a `BoltDeclarer` follow from the name `partial_key`. `kstorm.core.routing`
implements the choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, get_args

from kstorm.topology.fields import Fields


class TaskChooser(Protocol):
    """The interface of a `CustomStreamGrouping`."""

    def prepare(
        self, context: Any, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None: ...

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]: ...


class _Named:
    __slots__ = ()
    name: ClassVar[str]
    separates_equals: ClassVar[bool] = False
    """True if tuples with the same values may reach different tasks."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ShuffleGrouping(_Named):
    """Select each task in turn, so that all tasks get an equal share."""

    name: ClassVar[str] = "shuffle"
    separates_equals: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class NoneGrouping(_Named):
    """No preference. The same as shuffle, as in Storm."""

    name: ClassVar[str] = "none"
    separates_equals: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class KeyedGrouping(_Named):
    """A grouping by the values of some fields."""

    fields: Fields

    def __str__(self) -> str:
        return f"{self.name.replace('_', ' ')} {', '.join(self.fields)}"


@dataclass(frozen=True, slots=True)
class FieldsGrouping(KeyedGrouping):
    """The task given by a hash of some fields: equal values go to the same task."""

    name: ClassVar[str] = "fields"


@dataclass(frozen=True, slots=True)
class PartialKeyGrouping(KeyedGrouping):
    """Like a fields grouping, but with two tasks per key, of which the less loaded one is selected.
    This balances skewed keys."""

    name: ClassVar[str] = "partial_key"
    separates_equals: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class AllGrouping(_Named):
    """Every task."""

    name: ClassVar[str] = "all"


@dataclass(frozen=True, slots=True)
class GlobalGrouping(_Named):
    """Always the task with the lowest id."""

    name: ClassVar[str] = "global"


@dataclass(frozen=True, slots=True)
class DirectGrouping(_Named):
    """The task that the emitter names. The stream must be declared direct."""

    name: ClassVar[str] = "direct"


@dataclass(frozen=True, slots=True)
class CustomGrouping(_Named):
    """The tasks that a user-defined object chooses."""

    grouping: TaskChooser
    name: ClassVar[str] = "custom"


ChoosingGrouping = (
    ShuffleGrouping
    | NoneGrouping
    | FieldsGrouping
    | PartialKeyGrouping
    | AllGrouping
    | GlobalGrouping
    | CustomGrouping
)
"""Groupings that choose the tasks. With a `DirectGrouping`, the emitter chooses."""

Grouping = ChoosingGrouping | DirectGrouping
GROUPINGS: Final[tuple[type[Grouping], ...]] = get_args(Grouping)
