"""A hook for the testing kit: it watches the values that the operations of streams emit.

Their values wait in a buffer until the end of a batch, and only then are they emitted.
"""

from collections.abc import Callable
from typing import Any, Final


class BufferHook:
    watch: Callable[[Any, str], None] | None = None
    """Called with each new buffer and the name of its operation. None in the services."""


HOOK: Final = BufferHook()
