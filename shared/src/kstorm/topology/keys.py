"""The canonical form of keys, for groupings, states, joins, sessions, windows and databases.

Two values are the same key if they are equal after their transfer to another task. `docs/development/adr/0018`
lists the cases. There are three forms, which always agree:

- `hash_form` is encoded and hashed to choose a task.
- `comparable` returns objects that are equal in Python if they are the same key. It is used within
  a batch.
- `key_text` is the key as text, for states and databases. `key_values` reads it.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import inf, isfinite, nan
from reprlib import Repr
from types import NoneType
from typing import Any, Final

import msgspec

_PLAIN: Final = frozenset({str, int, bytes, NoneType})
"""Types for which Python's comparison is the same as the comparison of keys."""
_ARRIVE: Final = _PLAIN | {bool, float, list, dict, msgspec.msgpack.Ext}
"""Types that the values of an arriving tuple have, in addition to datetimes with a zone."""
_AS_JSON: Final = frozenset({str, int, NoneType, bool})
"""Types whose values JSON can represent, if integers have at most 64 bits."""
_LONG: Final = 20
# `kstorm.core` may not import datetime, because it gives access to the clock.
_TIME: Final[Any] = type(msgspec.msgpack.decode(b"\xd6\xff\0\0\0\0"))
_LEAST, _BEYOND = -(2**63), 2**64  # the limits of MessagePack
_PLAIN_EXPONENT: Final = 100

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.decode
_to_json = msgspec.json.Encoder(order="deterministic").encode
_from_json = msgspec.json.decode

UNENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""Raised by the encoders for values that cannot be keys."""

# Bounds length and depth: a value that cannot be a key may be a million levels deep.
_shown = Repr()
_shown.maxother = _shown.maxstring = 100


class Comparable:
    """A key that Python would confuse with another one, or that it cannot hash."""

    __slots__ = ("json", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        """The key, as it arrives in another task."""
        self.json: bytes = _to_json(_portable(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparable) and other.json == self.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Comparable({self.value!r})"


def comparable(values: list[Any]) -> list[Any]:
    """Return objects that are equal, and have the same hash, if the values are the same key.

    Raises `TypeError` for a value that cannot be a key.
    """
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [value if type(value) in _PLAIN else _comparable(value) for value in values]


def original(keys: Iterable[Any]) -> list[Any]:
    """Return the values of keys made by `comparable`, as they arrive in another task."""
    return [key.value if type(key) is Comparable else key for key in keys]


def key_text(values: Sequence[Any]) -> str:
    """Encode a key as text. A single text is not changed, so that people can look it up.

    Every other key becomes a JSON list, so that 1 and "1" are different keys. `values` may be
    objects from `comparable`. Raises `TypeError` for a value that cannot be a key.
    """
    if len(values) == 1:
        (value,) = values
        if type(value) is str:
            if value[:1] != "[" and "\0" not in value:
                return value
        elif type(value) not in _ARRIVE and type(value) is not Comparable:
            return key_text(comparable([value]))
    return list_text(values)


def list_text(values: Sequence[Any]) -> str:
    """Encode a key as a JSON list, even if it is a single text. Raises the same errors as
    `key_text`."""
    try:
        if _AS_JSON.issuperset(map(type, values)):
            text = _to_json(values)
            if len(text) < _LONG:  # no integer in it has more than 64 bits
                return text.decode()
        return _to_json([_portable(value) for value in values]).decode()
    except UNENCODABLE as error:
        raise _refusal(values, error) from None


def key_values(text: str) -> list[Any]:
    """Return the values of a key that `key_text` has encoded.

    Raises `ValueError` if it starts with "[" and is not a JSON list.
    """
    return listed_values(text) if text.startswith("[") else [text]


def listed_values(text: str) -> list[Any]:
    """Return the values of a key that `list_text` has encoded. Raises `ValueError` if it is not a
    JSON list."""
    try:
        found = _restored(_from_json(text))
    except (msgspec.MsgspecError, *UNENCODABLE) as error:
        raise ValueError(f"{text:.100} is not a key: {error}") from None
    if not isinstance(found, list):
        raise ValueError(f"{text:.100} is not a key: it is not a JSON list")
    return found


def hash_form(value: Any) -> Any:
    """Return a value whose deterministic MessagePack encoding is the same for the same keys.

    Different keys may have the same form: True has the same form as 1, as in kstorm 0.1. Raises one
    of `UNENCODABLE` for a value that cannot be a key.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return _number(value) if value == value else nan
    if kind is bool:
        return int(value)
    if kind is list or kind is tuple:
        return [hash_form(inner) for inner in value]
    if kind is dict:
        pairs = _pairs(value)
        if all(type(key) is str for key, _ in pairs):
            return {key: hash_form(inner) for key, inner in pairs}
        # The encoder can only sort keys that are text.
        return sorted((_encode(hash_form(key)), _encode(hash_form(inner))) for key, inner in pairs)
    return value if kind is _TIME or kind in _ARRIVE else hash_form(_arrived(value))


def shown(value: Any) -> str:
    """Format a value that cannot be a key for an error message."""
    try:
        return _shown.repr(value)
    except ValueError:  # Python refuses to print an integer of 5,000 digits
        return f"a {type(value).__name__}"


def _comparable(value: Any) -> Any:
    try:
        found = value if type(value) in _ARRIVE else _arrived(value)
        if type(found) is float:
            # A dict finds NaN only if it is the same object.
            return found if found == found else nan
        return found if type(found) in _PLAIN else Comparable(_inside(found))
    except UNENCODABLE as error:
        raise _refusal([value], error) from None


def _refusal(values: Sequence[Any], error: Exception) -> TypeError:
    return TypeError(
        f"{shown(list(values))} cannot be a key: {error}; make it text, a number, bytes, a list or "
        "a dict before"
    )


def _portable(value: Any) -> Any:
    """Return a key as plain JSON. A value that JSON cannot represent becomes a dict with a single
    name that starts with "$"."""
    kind = type(value)
    if kind is int:
        if not _LEAST <= value < _BEYOND:
            raise OverflowError("integers have at most 64 bits")
        return value
    if kind in _AS_JSON:
        return value
    if kind is float:
        return _number(value) if isfinite(value) else {"$float": str(value)}
    if kind is bytes:
        return {"$bytes": b64encode(value).decode()}
    if kind is list or kind is tuple:
        return [_portable(inner) for inner in value]
    if kind is dict:
        pairs = _pairs(value)
        if all(type(key) is str and key[:1] != "$" for key, _ in pairs):
            return {key: _portable(inner) for key, inner in pairs}
        pairs = [(_portable(key), _portable(inner)) for key, inner in pairs]
        return {"$map": sorted(pairs, key=_to_json)}
    if kind is Comparable:
        return msgspec.Raw(value.json)
    if kind is _TIME:
        arrived = _arrived(value)
        return arrived if type(arrived) is str else {"$time": arrived}
    if kind is msgspec.msgpack.Ext:
        return {"$ext": [value.code, b64encode(value.data).decode()]}
    return _portable(_arrived(value))


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        match name, inner:
            case "$float", "nan" | "inf" | "-inf":
                return {"nan": nan, "inf": inf, "-inf": -inf}[inner]
            case "$bytes", str():
                return b64decode(inner, validate=True)
            case "$time", str():
                return _TIME.fromisoformat(inner)
            case "$map", list():
                return {_hashable(_restored(key)): _restored(value) for key, value in inner}
            case "$ext", [int(code), str(data)]:
                return msgspec.msgpack.Ext(code, b64decode(data, validate=True))
    return {key: _restored(inner) for key, inner in value.items()}


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def _pairs(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the items of a dict, with keys as they arrive."""
    return [(key if type(key) in _ARRIVE else _arrived(key), inner) for key, inner in value.items()]


def _number(value: float) -> Any:
    """Return the integer that equals a number, if a 64-bit integer does."""
    return int(value) if value.is_integer() and _LEAST <= value < _BEYOND else value


def _arrived(value: Any) -> Any:
    """Return a value as another task receives it: with one of the types `_ARRIVE`.

    Equal decimals become equal, and so do equal sets, although other tasks may receive them in
    different forms.
    """
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, set | frozenset):
        return sorted(map(_element, value), key=lambda element: _encode(hash_form(element)))
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, dict):
        return dict(value)
    return _decode(_encode(value))


def _inside(value: Any) -> Any:
    """Return a value with its whole content as another task receives it."""
    if isinstance(value, list | tuple):
        return [_inside(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _inside(inner) for key, inner in value.items()}
    return _element(value)


def _element(value: Any) -> Any:
    return value if type(value) in _ARRIVE else _arrived(value)


def _decimal_text(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return str(value)
    if not value:
        return "0"
    text = "".join(map(str, digits)).lstrip("0")
    whole = text.rstrip("0")
    exponent += len(text) - len(whole)
    number = Decimal(f"{'-' if sign else ''}{whole}e{exponent}")
    return format(number, "f") if abs(exponent) <= _PLAIN_EXPONENT else str(number)
