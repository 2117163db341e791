"""Checks values against type annotations, for settings that are written by hand."""

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache, wraps
from math import isfinite
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from kstorm.errors import ArgumentError, ConfigError

F = TypeVar("F", bound=Callable[..., Any])

_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    bytes: "bytes",
    float: "a number",
    int: "a whole number",
    str: "text",
    type(None): "None",
}
_CONTAINERS: Final = (collections.abc.Mapping, collections.abc.Iterable, collections.abc.Collection)


_PLAIN: Final = (str, int, bool, type(None))
_MOST_FITTED: Final = 200

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Rule(NamedTuple):
    """A condition on values, for use in `Annotated`."""

    words: str
    holds: Callable[[Any], bool]


Text = Annotated[str, Rule("text that is not empty", bool)]
Positive = Annotated[int, Rule("a whole number of at least 1", lambda value: value >= 1)]
Natural = Annotated[int, Rule("a whole number of at least 0", lambda value: value >= 0)]
Share = Annotated[float, Rule("a number from 0 to 1", lambda value: 0 <= value <= 1)]
Seconds = Annotated[float, Rule("a number of seconds of at least 0", lambda value: value >= 0)]


def checked(*own: str) -> Callable[[F], F]:
    """Check the arguments of a function against its annotations at each call.

    The function itself checks the parameters in `own`. An argument of another type raises
    `ArgumentError`, which names the function, the parameter, the value and the valid types.
    """

    def wrap(function: F) -> F:
        signature = inspect.signature(function)
        names = tuple(signature.parameters)
        is_variadic = any(one.kind in _VARIADIC for one in signature.parameters.values())
        known: dict[str, set[type]] = {}  # by parameter, types whose values all fit
        fitted: set[tuple[str, type, Any]] = set()  # parameters with plain values that fit

        @cache
        def hints() -> Mapping[str, Any]:
            return {**_hints_of(function), **dict.fromkeys(own, Any)}

        def fitting(name: str, value: Any) -> bool:
            kind = type(value)
            if kind in _PLAIN and (name, kind, value) in fitted:
                return True
            hint = hints().get(name, Any)
            if not fits(value, hint):
                return False
            if _is_decided_by_type(hint):
                known.setdefault(name, set()).add(kind)
            elif kind in _PLAIN and len(fitted) < _MOST_FITTED:
                fitted.add((name, kind, value))
            return True

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            # `simulate` makes thousands of calls, nearly all with the same types or values.
            if not is_variadic and all(
                type(one) in known.get(name, ()) or fitting(name, one)
                for name, one in (*zip(names, args, strict=False), *named.items())
            ):
                return function(*args, **named)
            try:
                given = signature.bind(*args, **named).arguments
            except TypeError:
                return function(*args, **named)  # raises Python's own error
            for name, value in given.items():
                hint = hints().get(name, Any)
                for one in _values_of(signature.parameters[name].kind, value):
                    if not fits(one, hint):
                        remedy = f"it must be {in_words(hint)}"
                        if isinstance(one, type):
                            remedy += f"; give an instance, such as {one.__name__}(…)"
                        raise ArgumentError(
                            f"{_title(function, args)}: {name} is {_shown(name, one)}: {remedy}"
                        )
            return function(*args, **named)

        return typing.cast("F", call)

    return wrap


def _is_decided_by_type(hint: Any) -> bool:
    """Return True if a value fits an annotation whenever another value of its type does."""
    if hint is Any or hint is None or isinstance(hint, typing.TypeVar | str):
        return True
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(map(_is_decided_by_type, typing.get_args(hint)))
    return (
        isinstance(hint, type)
        and typing.get_origin(hint) is None
        and not getattr(hint, "_is_protocol", False)
        and (hint in (str, bytes) or not issubclass(hint, _CONTAINERS))
    )


def misfit(function: str, name: str, value: Any, hint: Any) -> ArgumentError:
    """Return the error for an argument of another type than `hint`, for functions that do not check
    each call.
    """
    return ArgumentError(
        f"{function}: {name} is {_shown(name, value)}: it must be {in_words(hint)}"
    )


def _values_of(kind: Any, value: Any) -> Collection[Any]:
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return typing.cast("tuple[Any, ...]", value)
    if kind is inspect.Parameter.VAR_KEYWORD:
        return list(value.values())
    return (value,)


def _title(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the name of a function. For a constructor, return the name of its class."""
    if function.__name__ == "__init__" and args:
        return type(args[0]).__name__
    return function.__name__


def _shown(name: str, value: Any) -> str:
    """Describe a value. Properties may contain passwords, so only their type is shown."""
    if name != "properties":
        with suppress(Exception):  # Python refuses to print an integer of 5,000 digits
            return f"{value!r:.200}"
    return f"of type {type(value).__name__}"


def check_fields(instance: Any, but: Collection[str] = ()) -> None:
    """Check the fields of a dataclass against its annotations, except those in `but`.

    Raises `ConfigError` for the first value of another type, and for NaN and infinity.
    """
    kind: Any = type(instance)
    hints = _hints_of(kind)
    for field in dataclasses.fields(instance):
        if field.name in but or field.name not in hints:
            continue
        value, hint = getattr(instance, field.name), hints[field.name]
        if not fits(value, hint):
            # A field without a repr may hold a secret.
            shown = _shown(field.name if field.repr else "properties", value)
            raise ConfigError(f"{field.name} is {shown}: it must be {in_words(hint)}")
        if isinstance(value, float) and not isfinite(value):
            raise ConfigError(f"{field.name} is {value}: it must be a finite number")


def fits(value: Any, hint: Any, *, builtins_only: bool = False) -> bool:
    """Return True if a value has the type of an annotation, or if that cannot be decided.

    An integer fits `float`, and a bool fits only `bool`. With `builtins_only`, any value fits an
    annotation with a class of another module.
    """
    if hint is Any or isinstance(hint, typing.TypeVar | str):
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one, builtins_only=builtins_only) for one in args)
    if origin is typing.Annotated:
        return fits(value, args[0], builtins_only=builtins_only) and all(
            rule.holds(value) for rule in args[1:] if isinstance(rule, Rule)
        )
    if origin is typing.Literal:
        return any(value == one and type(value) is type(one) for one in args)
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable(value) and (not args or args[0] is Ellipsis or takes(value, len(args[0])))
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if issubclass(kind, _CONTAINERS) and kind not in (str, bytes):
        return _contains(value, kind, args, builtins_only)
    if builtins_only and kind not in _WORDS:
        return True
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, type) and all(
            hasattr(value, name) for name in _members_of(kind)
        )
    return isinstance(value, kind)


def takes(function: Any, count: int) -> bool:
    """Return True if a function can be called with `count` arguments, or if that is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True  # it has no signature, as some functions written in C
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _members_of(protocol: type) -> list[str]:
    """Return the public members that a protocol requires."""
    return [
        name
        for kind in protocol.__mro__
        if getattr(kind, "_is_protocol", False)
        for name in vars(kind)
        if not name.startswith("_")
    ]


def _contains(value: Any, kind: type, args: tuple[Any, ...], builtins_only: bool) -> bool:
    if isinstance(value, str | bytes):
        return False
    if builtins_only and kind.__module__ not in ("builtins", "collections.abc"):
        return True
    if not isinstance(value, kind) and not (builtins_only and isinstance(value, list)):
        return False
    if isinstance(value, Mapping):
        return len(args) != 2 or all(
            fits(key, args[0], builtins_only=builtins_only)
            and fits(one, args[1], builtins_only=builtins_only)
            for key, one in value.items()
        )
    if not isinstance(value, Collection) or not args or issubclass(kind, Mapping):
        return True
    if kind is tuple and args[-1] is not Ellipsis:
        return True
    return all(fits(one, args[0], builtins_only=builtins_only) for one in value)


def in_words(hint: Any) -> str:
    """Describe an annotation."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        rules = [rule.words for rule in args[1:] if isinstance(rule, Rule)]
        return rules[0] if rules else in_words(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(in_words, args)))
    if origin is typing.Literal:
        return " or ".join(map(repr, args))
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        if not args or args[0] is Ellipsis:
            return "a function"
        return f"a function of {len(args[0])} argument{'s' if len(args[0]) != 1 else ''}"
    if hint is Any:
        return "any value"
    if hint in _WORDS or hint is None:
        return _WORDS.get(hint, "None")
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(f"{kind.__name__}.{name}" for name in kind.__members__)
    if isinstance(kind, type) and issubclass(kind, collections.abc.Mapping):
        return "a mapping" + (f" of {in_words(args[0])} to {in_words(args[1])}" if args else "")
    if isinstance(kind, type) and issubclass(kind, collections.abc.Iterable) and origin:
        return "a list" if args[0] is Any else f"a list of {in_words(args[0])}"
    return f"a {getattr(kind, '__name__', str(kind))}"


@cache
def _hints_of(kind: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation may name a type that is missing at run time
        return _evaluated(kind) if inspect.isfunction(kind) else {}


def _evaluated(function: Any) -> Mapping[str, Any]:
    """Return the annotations whose types exist at run time."""
    found: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        one = types.SimpleNamespace(__annotations__={name: annotation})
        with suppress(Exception):
            found |= typing.get_type_hints(one, function.__globals__, include_extras=True)
    return found
