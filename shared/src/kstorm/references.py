"""Resolves `package.module:attribute`, or raises an error that lists the alternatives."""

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

from kstorm import stand_ins
from kstorm.errors import ConfigError

_MOST: Final = 10
"""Number of names that fit into one line."""


@dataclass(frozen=True, slots=True)
class ExpectedKind:
    """The kind of object expected by `find`."""

    name: str
    """Used in errors: `topology`, for example."""
    fits: Callable[[ModuleType, object], bool]
    """Returns True if an attribute of a module is of this kind. The result of a function is
    unknown, so functions are not of a kind."""


def is_file(reference: str) -> bool:
    """Return True if a topology's reference is the path of a YAML file."""
    return reference.endswith((".yaml", ".yml"))


def is_code(reference: str) -> bool:
    """Return True for a reference to the topology itself: `package.module:attribute`, or a YAML
    file.

    Otherwise the reference is the topology's name.
    """
    return ":" in reference or is_file(reference)


def as_module(reference: str) -> str:
    """Return `topologies.wordcount:WordCount` for `topologies/wordcount.py:WordCount`, and other
    references unchanged.

    Raises `ConfigError` for a file outside of the current directory.
    """
    path, colon, attribute = reference.partition(":")
    if not path.endswith(".py"):
        return reference
    try:
        parts = Path(path).absolute().relative_to(Path.cwd()).with_suffix("").parts
    except ValueError:
        parts = ()
    if not parts or not all(part.isidentifier() for part in parts):
        raise ConfigError(
            f"{path} is not a module of {Path.cwd()}: change to the project's folder, and write "
            "folder/module.py:attribute with names of letters, digits and underscores"
        )
    return f"{'.'.join(parts)}{colon}{attribute}"


def _add_folders() -> None:
    """Let the modules of the current directory be imported, and those of a streamparse project."""
    here = Path.cwd()
    if "" not in sys.path and str(here) not in sys.path:
        sys.path.insert(0, str(here))
    if (here / "topologies").is_dir() and (here / "src").is_dir():
        sys.path += [
            folder
            for folder in (str(here / "src"), str(here / "topologies"))
            if folder not in sys.path
        ]


def find(reference: str, kind: ExpectedKind) -> object:
    """Return the object named by `package.module:attribute`, or `package/module.py:attribute`.
    Modules of the current directory can be imported.

    Raises `ConfigError` if it does not exist.
    """
    module_name, _, attribute = as_module(reference).partition(":")
    stand_ins.install()
    _add_folders()
    if not module_name or module_name.startswith(".") or not attribute:
        is_module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module_name)
        there = _others_of(module_name, kind) if is_module else ""
        raise ConfigError(
            f"the {kind.name} {reference!r} does not have the form "
            f"package.module:attribute{there and f'; available: {there}'}"
        )
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise ConfigError(
                f"the {kind.name} {reference!r} needs the module {error.name!r}, which is not "
                "installed"
            ) from None
        there = _other_modules(error.name)
        raise ConfigError(
            f"the {kind.name} {reference!r}: there is no module {error.name!r} in {Path.cwd()} or "
            f"on PYTHONPATH{there and f'; available: {there}'}"
        ) from None
    except AttributeError:
        module = sys.modules.get(module_name)
        if module is None or hasattr(module, attribute):
            # The module's own code raised the error.
            raise
        there = _others(module, kind)
        raise ConfigError(
            f"the {kind.name} {reference!r}: the module {module_name} has no "
            f"{attribute!r}{there and f'; available: {there}'}"
        ) from None


def _others(module: ModuleType, kind: ExpectedKind) -> str:
    """Return a module's objects of a kind as references, or "" if there are none."""
    names = [name for name, value in vars(module).items() if kind.fits(module, value)]
    return _listed(f"{module.__name__}:{name}" for name in names)


def _others_of(name: str, kind: ExpectedKind) -> str:
    """Like `_others`, for a module given by name. Return "" if the module cannot be imported."""
    try:
        return _others(importlib.import_module(name), kind)
    except Exception:  # noqa: BLE001 - user code may raise anything; only the invalid reference is reported
        return ""


def _other_modules(missing: str) -> str:
    """Return the names of sibling modules of a missing one, or "" if there are none.

    Similar names are preferred. Without any, all siblings are listed.
    """
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
