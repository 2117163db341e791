"""What `package.module:attribute` names, or an error that says what there is in its place."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Final

from kstorm.errors import ConfigError

_MOST: Final = 10
"""Names that fit into a line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is looked for, for the error that says that it is not there."""

    name: str
    """`topology`, say."""
    fits: Callable[[ModuleType, object], bool]
    """Whether what a module has is one. What functions would return is not known."""


def is_file(reference: str) -> bool:
    """Whether a topology's reference is the path of a YAML file."""
    return reference.endswith((".yaml", ".yml"))


def is_code(reference: str) -> bool:
    """Whether it says where the topology itself is: `package.module:attribute`, or a YAML file. Else it is its name."""
    return ":" in reference or is_file(reference)


def find(reference: str, kind: Kind) -> object:
    """The object that `package.module:attribute` names; the current folder is importable. Raises `ConfigError`."""
    module_name, _, attribute = reference.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not module_name or module_name.startswith(".") or not attribute:
        is_module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module_name)
        there = _others_of(module_name, kind) if is_module else ""
        raise ConfigError(
            f"the {kind.name} {reference!r} is not of the form package.module:attribute{there and f'; there is {there}'}"
        )
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise ConfigError(
                f"the {kind.name} {reference!r} needs the module {error.name!r}, which is not installed"
            ) from None
        there = _other_modules(error.name)
        raise ConfigError(
            f"the {kind.name} {reference!r}: there is no module {error.name!r} in {Path.cwd()} or on PYTHONPATH"
            f"{there and f'; there is {there}'}"
        ) from None
    except AttributeError:
        module = sys.modules.get(module_name)
        if module is None or hasattr(module, attribute):  # the code itself has raised it
            raise
        there = _others(module, kind)
        raise ConfigError(
            f"the {kind.name} {reference!r}: the module {module_name} has no {attribute!r}{there and f'; there is {there}'}"
        ) from None


def _others(module: ModuleType, kind: Kind) -> str:
    """Those of a kind that a module has, as references; empty if it has none."""
    names = [name for name, value in vars(module).items() if kind.fits(module, value)]
    return _listed(f"{module.__name__}:{name}" for name in names)


def _others_of(name: str, kind: Kind) -> str:
    """The same of a module that is named without an attribute; empty if it cannot be imported."""
    try:
        return _others(importlib.import_module(name), kind)
    except Exception:  # noqa: BLE001 - whatever the user's code raises: the reference was no good, and that is said
        return ""


def _other_modules(missing: str) -> str:
    """The modules beside one that is not there: those with a name like it, or all if there is none; empty if there are none."""
    parent, _, name = missing.rpartition(".")
    package = sys.modules.get(parent)
    path = [str(Path.cwd())] if not parent else getattr(package, "__path__", [])
    names = [found.name for found in pkgutil.iter_modules(path)]
    names = get_close_matches(name, names, n=3) or names
    return _listed(f"{parent}.{each}" if parent else each for each in names)


def _listed(names: Iterable[str]) -> str:
    first = list(names)
    return ", ".join(first[:_MOST]) + (
        f" and {len(first) - _MOST} others" if len(first) > _MOST else ""
    )
