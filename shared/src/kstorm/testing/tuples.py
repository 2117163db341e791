"""Tuples for tests that call `execute` directly (Storm's `Testing.testTuple`)."""

from collections.abc import Iterable, Sequence
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import Natural, Text, checked
from kstorm.topology import DEFAULT_STREAM, Fields, Source, Tuple


@checked()
def make_tuple(
    values: Sequence[Any],
    fields: Iterable[str] | None = None,
    component: Text = "component",
    stream: Text = DEFAULT_STREAM,
    task: Natural = 1,
) -> Tuple:
    """Make a tuple as emitted by `task` of `component` on `stream`: `make_tuple(["cow"],
    ["word"])`.

    By default the fields are named `field1`, `field2` and so on. The tuple belongs to no tree.
    Raises `TopologyError` unless there is one field for each value.
    """
    names = Fields([f"field{n}" for n in range(1, len(values) + 1)] if fields is None else fields)
    if len(names) != len(values):
        raise TopologyError(
            f"a tuple has {len(values)} values for {len(names)} fields ({', '.join(names)}): give "
            "one value per field"
        )
    return Tuple(values, Source(component, stream, task, names))
