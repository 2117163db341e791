"""What there is in place of what `package.module:attribute` names and is not there, for the error that says so."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Final

from kstorm.topology import Topology

_MOST: Final = 10
"""Names that fit into a line."""


def other_topologies(module: ModuleType) -> str:
    """The topologies of a module, as references; empty if it has none. What functions would return is not known."""
    names = [name for name, value in vars(module).items() if isinstance(value, Topology)]
    return _listed(f"{module.__name__}:{name}" for name in names)


def topologies_of(name: str) -> str:
    """The same of a module that is named without an attribute; empty if it cannot be imported."""
    try:
        return other_topologies(importlib.import_module(name))
    except Exception:  # noqa: BLE001 - whatever the user's code raises: the reference was no good, and that is said
        return ""


def other_modules(missing: str) -> str:
    """The modules beside one that is not there: those with a name like it, or all if there is none; empty if there are none."""
    parent, _, name = missing.rpartition(".")
    package = sys.modules.get(parent)
    path = [str(Path.cwd())] if not parent else getattr(package, "__path__", [])
    names = [found.name for found in pkgutil.iter_modules(path)]
    names = get_close_matches(name, names, n=3) or names
    return _listed(f"{parent}.{each}" if parent else each for each in names)


def _listed(names: Iterable[str]) -> str:
    first = list(names)
    return ", ".join(first[:_MOST]) + (f" and {len(first) - _MOST} others" if len(first) > _MOST else "")
