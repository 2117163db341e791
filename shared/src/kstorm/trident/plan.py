"""The user's streams as a graph of operations. Nothing is validated before `build`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstorm.errors import TopologyError
from kstorm.topology import Fields
from kstorm.topology.groupings import Grouping
from kstorm.trident.state import QueryFunction
from kstorm.trident.steps import Step
from kstorm.trident.updates import StateUpdate

_HERE = str(Path(__file__).parents[1])


@dataclass(eq=False)
class Node:
    """One operation."""

    title: str
    """Title in plans and messages."""
    parents: "list[Node]"
    where: str = field(default_factory=lambda: line_of_user())
    """Line of the user's code that added the operation."""
    name: str | None = None
    """The component ID that the user has set."""
    hint: int | None = None
    """The parallelism that the user has set."""
    tasks: int | None = None


@dataclass(eq=False)
class SpoutNode(Node):
    """The start of a stream."""

    id: str = ""
    spout: Any = None


@dataclass(eq=False)
class StepNode(Node):
    """An operation on tuples within their task."""

    short: str = ""
    """Base of the ID of its bolt."""
    make: Callable[[Fields], tuple[Fields, Step]] | None = None
    """Returns the output fields and the step for the given input fields. Raises `TopologyError`."""
    make_of_parts: Callable[[Fields], tuple[Fields, Step]] | None = None
    """Used instead of `make` if the tuples were partly aggregated before they were sent."""
    is_partial: bool = False
    """True for an aggregation before tuples are sent."""
    is_optional: bool = False
    """True if the step is left out where it would need a bolt of its own."""


@dataclass(eq=False)
class WindowNode(Node):
    """An aggregation of windows."""

    short: str = ""
    window: Any = None
    make: Callable[[Fields], tuple[Fields, Step]] | None = None
    """As in `StepNode`, for the tuples of a window."""


@dataclass(eq=False)
class RepartitionNode(Node):
    """A repartitioning: chooses the task that receives a tuple next."""

    names: Fields | None = None
    """Fields that determine the task, or None."""
    grouping: Callable[[Fields], Grouping] | None = None
    """Returns the grouping for these fields, as they are called at their source."""


@dataclass(eq=False)
class MergeNode(Node):
    """Several streams merged into one, with the fields of the first one."""


@dataclass(eq=False)
class StateNode(Node):
    """A state and its updates."""

    short: str = ""
    groups: Fields | None = None
    """Fields of its key, or None if it is not an aggregate."""
    can_be_asked: bool = True
    """True if queries are possible."""
    in_database: bool = False
    """True for an external state, whose keys cannot be listed per task."""
    make: Callable[[Fields, bool], StateUpdate] | None = None
    """Returns the update for the given input fields. The flag is true if they are combined already.
    Raises `TopologyError`."""


@dataclass(eq=False)
class QueryNode(Node):
    """A query of a state by the tuples of a stream."""

    state: StateNode | None = None
    query: QueryFunction | None = None
    inputs: Fields = field(default_factory=Fields)
    added: Fields = field(default_factory=Fields)


@dataclass(eq=False)
class JoinNode(Node):
    """A join of streams by key."""

    keys: tuple[Fields, ...] = ()
    outputs: Fields = field(default_factory=Fields)
    optional: frozenset[int] = frozenset()
    """Numbers of the streams that may lack a tuple."""
    window: Any = None
    """None joins over the whole history."""
    mode: str = "compact"


@dataclass(eq=False)
class BoltNode(Node):
    """A bolt of the user's that ends a stream."""

    short: str = ""
    bolt: Any = None


def spare(name: str, taken: Fields) -> str:
    """Return a field name that is not taken."""
    while name in taken:
        name += "_"
    return name


def line_of_user() -> str:
    """Return the line of code that called kstorm, such as `app.py:14`."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, "<string>")):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def select_fields(names: Fields, of: Fields) -> Fields:
    """Return the names if the stream has all of them. Raises `TopologyError` otherwise."""
    for name in names:
        if name not in of:
            raise TopologyError(
                f"the stream has no field {name!r}, only {', '.join(map(repr, of)) or 'none'}"
            )
    return names


def add_fields(names: Fields, to: Fields) -> Fields:
    """Return a stream's fields with additional ones. Raises `TopologyError` if one already
    exists."""
    for name in names:
        if name in to:
            raise TopologyError(
                f"the stream has a field {name!r} already: give the new one another name"
            )
    return Fields(*to, *names)


def rename_fields(names: Fields, merged: Fields, own: Fields) -> Fields:
    """Return the names that fields of a merged stream have in one of its sources."""
    return Fields(*(own[merged.index(name)] for name in names))
