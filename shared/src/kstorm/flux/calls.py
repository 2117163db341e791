"""Call the classes and functions named in a topology file. Errors include the place in the file."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from kstorm.errors import ConfigError, KstormError
from kstorm.flux.document import FilePosition
from kstorm.references import ExpectedKind, find


def find_at(reference: str, kind: ExpectedKind, at: FilePosition) -> Any:
    """Import `package.module:attribute`. Raises `ConfigError` with the place in the file."""
    try:
        return find(reference, kind)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from None


def call_at(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    at: FilePosition,
    name: str,
) -> Any:
    """Call a function. Raises `ConfigError` with the place in the file for any exception."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        # some functions written in C have no signature
        signature = None
    if signature is not None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{at}: {name}{_shown(signature)}: {error}") from None
        bound.arguments.update(
            convert_arguments(bound.arguments, hints_of(_initializer(function)), at)
        )
        args, kwargs = bound.args, bound.kwargs
    try:
        return function(*args, **kwargs)
    except KstormError as error:
        raise ConfigError(f"{at}: {name}: {error}") from None
    except Exception as error:
        raise ConfigError(f"{at}: {name} raised {type(error).__name__}: {error}") from error


def _initializer(function: Callable[..., Any]) -> object:
    """Return the object that has the parameters' types. For a class this is its `__init__`, since
    the class itself has the types of its attributes."""
    return getattr(function, "__init__") if isinstance(function, type) else function  # noqa: B009 - mypy accepts only getattr


def _shown(signature: inspect.Signature) -> str:
    """Return the parameters' names as text."""
    names = [
        f"{'*' * (p.kind - 1) if p.kind in (2, 4) else ''}{p.name}"
        for p in signature.parameters.values()
    ]
    return f"({', '.join(names)})"


def hints_of(function: Any) -> Mapping[str, Any]:
    """Return the types of parameters or of a class's attributes, by name. Return {} if they are
    unknown."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - users' annotations may name types missing at run time
        return {}


def convert_arguments(
    values: Mapping[str, Any], hints: Mapping[str, Any], at: FilePosition
) -> dict[str, Any]:
    """Convert values to their parameters' types: member names to enum members, and whole numbers to
    floats."""
    return {name: _fitting(name, value, hints.get(name), at) for name, value in values.items()}


def _fitting(name: str, value: Any, hint: Any, at: FilePosition) -> Any:
    kinds = (hint, *typing.get_args(hint))
    if type(value) is int and float in kinds and int not in kinds:
        return float(value)
    if not isinstance(value, str) or str in kinds:
        return value
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            if value not in kind.__members__:
                raise ConfigError(
                    f"{at}: {name} is {value!r}: it must be one of {', '.join(kind.__members__)}"
                )
            return kind[value]
    return value


def method_of(of: Any, name: str, at: FilePosition) -> Callable[..., Any]:
    """Return a public method of an object or class. Raises `ConfigError` if it does not exist."""
    kind = of if isinstance(of, type) else type(of)
    found = None if name.startswith("_") else getattr(of, name, None)
    if not callable(found):
        known = [
            each
            for each in dir(of)
            if not each.startswith("_") and callable(getattr(of, each, None))
        ]
        raise ConfigError(
            f"{at}: {kind.__name__} has no method {name!r}: it has {', '.join(known) or 'none'}"
        )
    return typing.cast("Callable[..., Any]", found)
