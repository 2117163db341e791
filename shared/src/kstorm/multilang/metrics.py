"""The numbers that a component reports, as metrics of its task."""

import re
from collections.abc import Iterable, Mapping
from typing import Any


def metrics_of(name: str, value: Any) -> Iterable[tuple[str, float]]:
    """Yield the numbers in a reported metric, by names of letters, digits and underscores.

    The numbers of a dict have its keys in their names. Other values yield nothing.
    """
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from metrics_of(f"{name}_{key}", each)
    elif isinstance(value, int | float):
        yield re.sub(r"\W", "_", name, flags=re.ASCII) or "_", float(value)
