"""Call the classes and functions named in a topology file. Errors name the place in the file."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from types import MappingProxyType
from typing import Any

from kstorm.errors import ConfigError, KstormError
from kstorm.fitting import fits, in_words
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
    places: tuple[Sequence[FilePosition], Mapping[str, FilePosition]] = ((), {}),
) -> Any:
    """Call a function. Raises `ConfigError` with the place in the file for any exception.

    `places` are the places of the arguments in the file. The values of these arguments are checked
    against the function's annotations.
    """
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
        written = signature.bind_partial(*places[0], **places[1]).arguments
        hints = _with_defaults(hints_of(_initializer(function)), signature)
        bound.arguments.update(
            convert_arguments(bound.arguments, hints, at, _places_of(signature, written))
        )
        args, kwargs = bound.args, bound.kwargs
    try:
        return function(*args, **kwargs)
    except KstormError as error:
        raise ConfigError(f"{at}: {name}: {error}") from None
    except Exception as error:
        raise ConfigError(f"{at}: {name} raised {type(error).__name__}: {error}") from error


def _initializer(function: Callable[..., Any]) -> object:
    """Return the object with the annotations of the parameters. For a class this is its `__init__`,
    because the annotations of the class itself are those of its attributes."""
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


def _with_defaults(hints: Mapping[str, Any], signature: inspect.Signature) -> Mapping[str, Any]:
    """Return the hints. A parameter with the default None also accepts None."""
    return {
        name: hint | None
        if name in signature.parameters
        and signature.parameters[name].default is None
        and hint is not None
        and not isinstance(hint, str)
        else hint
        for name, hint in hints.items()
    }


def _places_of(signature: inspect.Signature, written: Mapping[str, Any]) -> dict[str, FilePosition]:
    """Return the places of ordinary parameters, by name. `*args` and `**kwargs` are not checked."""
    return {
        name: place
        for name, place in written.items()
        if isinstance(place, FilePosition)
        and signature.parameters[name].kind
        not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    }


def convert_arguments(
    values: Mapping[str, Any],
    hints: Mapping[str, Any],
    at: FilePosition,
    places: Mapping[str, FilePosition] = MappingProxyType({}),
) -> dict[str, Any]:
    """Convert values to their parameters' types: member names to enum members, and whole numbers to
    floats.

    Raises `ConfigError` if a value at one of the `places` does not have its parameter's type.
    """
    found = {name: _fitting(name, value, hints.get(name), at) for name, value in values.items()}
    for name, place in places.items():
        hint = hints.get(name, Any)
        if not fits(found[name], hint, builtins_only=True):
            raise ConfigError(
                f"{place}: {name} is {found[name]!r:.200}: it must be {in_words(hint)}{_quoted(found[name], hint)}"
            )
    return found


def _quoted(value: Any, hint: Any) -> str:
    """Return advice about text that YAML reads as another type, such as `on` or 20261123."""
    if isinstance(value, bool | int | float | date) and fits("", hint, builtins_only=True):
        return "; YAML reads it as text if it is in quotes"
    return ""


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
