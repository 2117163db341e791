"""Which task has a key of a bolt's state: the one that the grouping of its input sends the key's tuples to.

A bolt may put under any key what it likes, so this is a guess where nobody names the values that tuples are grouped by: the key
itself, as a count of words does it, or the list of JSON that the key is.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from kstorm.core.routing import stable_hash
from kstorm.inspect.outline import Outline


def owner(outline: Outline, component: str, values: Sequence[Any]) -> int | None:
    """The topology-wide id of the task that gets the tuples with these values in the fields that they are grouped by.

    None if that cannot be told: not all inputs have a fields grouping, or not by so many fields. Raises `EmitError` if there is a
    value that cannot be grouped by, `TopologyError` if there is no such component.
    """
    tasks = outline.task_ids(component)
    if len(tasks) == 1:
        return tasks[0]
    return (
        tasks[stable_hash(values) % len(tasks)]
        if _grouping_fields(outline, component) == len(values)
        else None
    )


def likely_values(outline: Outline, component: str, key: str) -> Sequence[Any]:
    """What the tuples of a key were probably grouped by."""
    values = _listed(key)
    return (
        values
        if values is not None and len(values) == _grouping_fields(outline, component)
        else [key]
    )


def _grouping_fields(outline: Outline, component: str) -> int | None:
    """By how many fields all its inputs are grouped; None if there is none, or they differ."""
    counts = {len(edge.grouped_by) for edge in outline.edges if edge.target == component}
    return counts.pop() or None if len(counts) == 1 else None


def _listed(key: str) -> list[Any] | None:
    if not key.startswith("["):
        return None
    try:
        found = msgspec.json.decode(key)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, list) else None
