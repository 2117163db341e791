"""What a user has written, as a graph of operations: nothing of it is checked before `build`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstorm.errors import TopologyError
from kstorm.topology import Fields
from kstorm.topology.groupings import FieldsGrouping, Grouping, PartialKeyGrouping
from kstorm.trident.state import QueryFunction
from kstorm.trident.steps import Step
from kstorm.trident.updates import Update

_HERE = str(Path(__file__).parent)


@dataclass(eq=False)
class Node:
    """One operation."""

    title: str
    """As it is shown in a plan."""
    parents: "list[Node]"
    where: str = field(default_factory=lambda: line_of_user())
    """The line that asked for it."""
    name: str | None = None
    """The id that the user wants for its component."""
    hint: int | None = None
    """The parallelism that the user wants."""
    tasks: int | None = None


@dataclass(eq=False)
class SpoutNode(Node):
    """Where a stream begins."""

    id: str = ""
    spout: Any = None


@dataclass(eq=False)
class StepNode(Node):
    """An operation on the tuples where they are."""

    short: str = ""
    """What its bolt may be called."""
    make: Callable[[Fields], tuple[Fields, Step]] | None = None
    """Of the fields that come in, those that come out, and what does it. Raises `TopologyError`."""
    make_of_parts: Callable[[Fields], tuple[Fields, Step]] | None = None
    """What does it instead, where a part of it is done before tuples travel."""
    is_partial: bool = False
    """Whether it does such a part."""
    is_optional: bool = False
    """Whether it is left out where it would be a hop of its own."""


@dataclass(eq=False)
class WindowNode(Node):
    """An aggregation of windows."""

    short: str = ""
    window: Any = None
    make: Callable[[Fields], tuple[Fields, Step]] | None = None
    """As of a `StepNode`, of the tuples of a window."""


@dataclass(eq=False)
class RepartitionNode(Node):
    """Which task has a tuple next."""

    names: Fields | None = None
    """The fields that decide; None if none do."""
    grouping: Callable[[Fields], Grouping] | None = None
    """Made of those fields, under the names that they have where they come from."""


@dataclass(eq=False)
class MergeNode(Node):
    """Several streams as one, with the first one's fields."""


@dataclass(eq=False)
class StateNode(Node):
    """A state and its updates."""

    short: str = ""
    groups: Fields | None = None
    """The fields of its key, if it has groups."""
    can_be_asked: bool = True
    """Whether queries may ask it."""
    in_database: bool = False
    """Whether it is in one, which does not tell what a task has."""
    make: Callable[[Fields, bool], Update] | None = None
    """Of the fields that come in, and whether they are combined already. Raises `TopologyError`."""


@dataclass(eq=False)
class QueryNode(Node):
    """Tuples that ask a state."""

    state: StateNode | None = None
    query: QueryFunction | None = None
    inputs: Fields = field(default_factory=Fields)
    added: Fields = field(default_factory=Fields)


@dataclass(eq=False)
class JoinNode(Node):
    """Two streams by their keys."""

    keys: tuple[Fields, Fields] = (Fields(), Fields())
    outputs: Fields = field(default_factory=Fields)
    kind: str = "inner"
    window: Any = None
    """None joins all that ever came."""
    mode: str = "compact"


@dataclass(eq=False)
class BoltNode(Node):
    """A bolt of the user's, which ends a stream."""

    short: str = ""
    bolt: Any = None


def line_of_user() -> str:
    """The line of whoever called this package: `app.py:14`."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, "<string>")):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def chosen(names: Fields, of: Fields) -> Fields:
    """The names, if the stream has them all. Raises `TopologyError`."""
    for name in names:
        if name not in of:
            raise TopologyError(
                f"the stream has no field {name!r}, only {', '.join(map(repr, of)) or 'none'}"
            )
    return names


def added(names: Fields, to: Fields) -> Fields:
    """The fields of a stream with more of them. Raises `TopologyError` if one is there already."""
    for name in names:
        if name in to:
            raise TopologyError(
                f"the stream has a field {name!r} already: give the new one another name"
            )
    return Fields(*to, *names)


def renamed(names: Fields, merged: Fields, own: Fields) -> Fields:
    """Fields of a merged stream, by the names that one of its parts has for them."""
    return Fields(*(own[merged.index(name)] for name in names))


def by_fields(fields: Fields) -> Grouping:
    """Equal values, same task."""
    return FieldsGrouping(fields)


def by_partial_key(fields: Fields) -> Grouping:
    """The less loaded of two tasks."""
    return PartialKeyGrouping(fields)
