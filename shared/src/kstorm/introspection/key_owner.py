"""Find the task whose state has a key. It is the task to which the input's grouping sends the
key's tuples.

A bolt may store anything under any key. So unless the user gives the grouping values, the result is
a guess. It assumes that the values are the key itself, as in a word count, or the items of a JSON
list.
"""

from collections.abc import Sequence
from typing import Any

from kstorm.core.key_hash import stable_hash
from kstorm.introspection.outline import Outline
from kstorm.topology.keys import listed_values


def owner_of(outline: Outline, component: str, values: Sequence[Any]) -> int | None:
    """Return the topology-wide id of the task that receives tuples with these grouping values.

    None if it cannot be determined, because an input has no fields grouping, or one with another
    number of fields. Raises `EmitError` for a value that cannot be a key. Raises `TopologyError` if
    the component is unknown.
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
    """Return the values by which a key's tuples were probably grouped."""
    values = _listed(key)
    return (
        values
        if values is not None and len(values) == _grouping_fields(outline, component)
        else [key]
    )


def _grouping_fields(outline: Outline, component: str) -> int | None:
    """Return the number of grouping fields. None if inputs differ or have no fields grouping."""
    counts = {len(edge.grouped_by) for edge in outline.edges if edge.target == component}
    return counts.pop() or None if len(counts) == 1 else None


def _listed(key: str) -> list[Any] | None:
    try:
        return listed_values(key)
    except ValueError:
        return None
