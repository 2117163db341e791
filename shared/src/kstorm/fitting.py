"""Checks values against type annotations, for settings that are written by hand."""

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from kstorm.errors import ConfigError

_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    bytes: "bytes",
    float: "a number",
    int: "a whole number",
    str: "text",
    type(None): "None",
}
_CONTAINERS: Final = (
    collections.abc.Mapping,
    collections.abc.Iterable,
    collections.abc.Collection,
)


def check_fields(instance: Any, but: Collection[str] = ()) -> None:
    """Check the fields of a dataclass against its annotations, except those in `but`.

    Raises `ConfigError` for the first value of another type.
    """
    kind: Any = type(instance)
    hints = _hints_of(kind)
    for field in dataclasses.fields(instance):
        if field.name in but or field.name not in hints:
            continue
        value, hint = getattr(instance, field.name), hints[field.name]
        if not fits(value, hint):
            # A field without a repr may hold a secret.
            shown = repr(value) if field.repr else f"of type {type(value).__name__}"
            raise ConfigError(f"{field.name} is {shown:.200}: it must be {in_words(hint)}")


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
        return fits(value, args[0], builtins_only=builtins_only)
    if origin is typing.Literal:
        return any(value == one and type(value) is type(one) for one in args)
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable(value)
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if issubclass(kind, _CONTAINERS) and kind not in (str, bytes):
        return _contains(value, kind, args, builtins_only)
    if getattr(kind, "_is_protocol", False) or (builtins_only and kind not in _WORDS):
        return True
    return isinstance(value, kind)


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
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(in_words, args)))
    if origin is typing.Literal:
        return " or ".join(map(repr, args))
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return "a function"
    if hint in _WORDS or hint is None:
        return _WORDS.get(hint, "None")
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(f"{kind.__name__}.{name}" for name in kind.__members__)
    if isinstance(kind, type) and issubclass(kind, collections.abc.Mapping):
        return "a mapping" + (f" of {in_words(args[0])} to {in_words(args[1])}" if args else "")
    if isinstance(kind, type) and issubclass(kind, collections.abc.Iterable) and origin:
        return f"a list of {in_words(args[0])}"
    return f"a {getattr(kind, '__name__', str(kind))}"


@cache
def _hints_of(kind: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - an annotation may name a type that is missing at run time
        return {}
