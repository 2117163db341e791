"""The testing kit watches the values that the operations of streams emit.

Their values wait in a buffer until the end of a batch, and only then are they emitted.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

BUFFER_WATCH: Final = "buffer watch"
"""Name of a `BufferWatch` in `TopologyContext.resources`. The services have none."""

BufferWatch = Callable[[Any, str], None]
"""Called with each new buffer and the name of its operation."""


def buffer_watch(resources: Mapping[str, Any]) -> BufferWatch | None:
    watch: BufferWatch | None = resources.get(BUFFER_WATCH)
    return watch
