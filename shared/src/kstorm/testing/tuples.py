"""Tuples for a test that calls `execute` itself (Storm's `Testing.testTuple`)."""

from collections.abc import Iterable, Sequence
from typing import Any

from kstorm.errors import TopologyError
from kstorm.topology import DEFAULT_STREAM, Fields, Source, Tuple


def make_tuple(
    values: Sequence[Any],
    fields: Iterable[str] | None = None,
    component: str = "component",
    stream: str = DEFAULT_STREAM,
    task: int = 1,
) -> Tuple:
    """A tuple as if `task` of `component` had emitted it on `stream`: `make_tuple(["cow"], ["word"])`.

    Without `fields` they are called `field1`, `field2` and so on. It belongs to no tree. Raises `TopologyError` unless
    there is a field for each value.
    """
    names = Fields([f"field{n}" for n in range(1, len(values) + 1)] if fields is None else fields)
    if len(names) != len(values):
        raise TopologyError(
            f"a tuple of {len(values)} values for {len(names)} fields ({', '.join(names)}): give one each"
        )
    return Tuple(values, Source(component, stream, task, names))
