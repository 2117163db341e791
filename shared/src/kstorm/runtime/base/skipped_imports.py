"""Imports libraries without modules that they use only if these are installed.

A process imports for most of the time of its start.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def skipped_imports(*names: str) -> Iterator[None]:
    """Make imports of these modules fail, unless they are loaded already."""
    skipped = [name for name in names if name not in sys.modules]
    for name in skipped:
        sys.modules[name] = None  # type: ignore[assignment] # importlib's sign for "not found"
    try:
        yield
    finally:
        for name in skipped:
            del sys.modules[name]
