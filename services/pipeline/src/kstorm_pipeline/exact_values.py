"""Converts parsed JSON values to column values, each exactly or not at all.

A part of `exact_json`: Spark sends it to its workers too, so it imports only the standard library.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from json.encoder import encode_basestring
from typing import Any

Read = Callable[[Any], Any]
"""Converts a parsed JSON value to a column's value. Raises MisfitError."""

_LAST_MILLISECOND = 253402300799999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NUMBER = 1_000
_LONGEST_NAME = 50_000
"""Characters. Spark's parser does not accept longer names in a VARIANT."""
_SHOWN = 60

WHOLE = re.compile(r"-?[0-9]+")
_NOT_ZERO = re.compile(r"[+-]?[0.]*[1-9]")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?: ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)


class MisfitError(Exception):
    """A value does not fit its column."""


def shortened(text: str) -> str:
    """Return a text of bounded length for a reason."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def is_of(value: Any, kind: str) -> bool:
    """Return True if the value has the JSON type of the column."""
    found = type(value)
    if kind == "variant":
        return True
    if kind in ("whole", "millis"):
        return found is Number and is_bigint(value)
    if kind in ("float", "double"):
        return found is Number
    # Amounts of money are often text, because JavaScript's numbers cannot represent them.
    if kind == "decimal":
        return found is Number or found is str
    if kind == "boolean":
        return found is bool
    if kind in ("struct", "map"):
        return found is dict
    return found is (list if kind == "array" else str)


def is_bigint(number: str) -> bool:
    """Return True for a whole number of 64 bits. JSON has longer ones, which Spark has as DECIMAL."""
    return WHOLE.fullmatch(number) is not None and len(number) <= 20 and fits(int(number), 64)


def fits(number: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def maker(kind: tuple[Any, ...]) -> Read:
    """Return the conversion of JSON values to this column type."""
    name = kind[0]
    if name == "whole":
        last = 1 << (kind[1] - 1)
        return lambda value: _whole(value, -last, last - 1)
    if name == "millis":
        return lambda value: _EPOCH + timedelta(milliseconds=_whole(value, 0, _LAST_MILLISECOND))
    if name == "decimal":
        return _decimal(kind[1], kind[2])
    if name == "timestamp":
        return lambda value: _time(value, cut=kind[1])
    if name == "timestamp_ntz":
        return lambda value: _time(value, cut=kind[1], zone=False)
    if name == "struct":
        return _struct(kind[1])
    if name in ("map", "array"):
        return (_map if name == "map" else _array)(_one(kind[1], kind[2]))
    return _MAKERS[str(name)]


def _within(kind: tuple[Any, ...]) -> Read:
    """Return the conversion for a nested value, which checks its JSON type too."""
    name, make = kind[0], maker(kind)

    def read(value: Any) -> Any:
        if not is_of(value, name):
            raise MisfitError
        return make(value)

    return read


def _string(value: str) -> str:
    """Refuse half of a surrogate pair, which cannot be encoded as UTF-8."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MisfitError("half of a surrogate pair is not text") from None
    return value


def _whole(value: str, first: int, last: int) -> int:
    if len(value) > 20 or not first <= int(value) <= last:
        raise MisfitError
    return int(value)


def _decimal(precision: int, scale: int) -> Read:
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    unit = Decimal((0, (1,), -scale))

    def read(value: str) -> Decimal:
        if not _DECIMAL.fullmatch(value):
            raise MisfitError
        if not _NOT_ZERO.match(value):  # whatever its exponent, which Decimal limits
            return Decimal(0)
        try:
            return Decimal(value).quantize(unit, context=context)
        except (DecimalException, ValueError):
            raise MisfitError from None

    return read


def _double(value: str) -> float:
    """Return the nearest number. A whole number must not change, since it may be an ID."""
    try:
        if not WHOLE.fullmatch(value):
            return _near(value, float(value))
        if len(value) > 400:
            raise MisfitError
        number = int(value)
        found = float(number)
    except OverflowError:
        raise MisfitError from None
    # JavaScript writes 123456789012345680000 for the number 123456789012345683968.
    if int(found) != number and Decimal(repr(found)) != number:
        raise MisfitError
    return found


def _float(value: str) -> float:
    number = _double(value)
    try:
        (found,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        raise MisfitError from None
    if found != number:
        if WHOLE.fullmatch(value):
            raise MisfitError
        found = _nearer(value, number, found)
    return _near(value, float(found))


def _nearer(written: str, number: float, found: float) -> float:
    """Return the FLOAT nearest to a number as it is written.

    The DOUBLE `number` was rounded to `found`. It was rounded before, so if it is halfway between
    two FLOATs, the written number may be nearer to the other one.
    """
    (bits,) = struct.unpack("I", struct.pack("f", found))
    bits += 1 if abs(number) > abs(found) else -1
    (other,) = struct.unpack("f", struct.pack("I", bits))
    if abs(number - found) != abs(number - other):
        return found
    exact, halfway = Decimal(written), Decimal(number)
    return found if exact == halfway or (exact > halfway) == (found > other) else float(other)


def _near(written: str, found: float) -> float:
    """Refuse an infinity, and a zero in place of a small number."""
    if found - found != 0 or (found == 0 and _NOT_ZERO.match(written)):
        raise MisfitError
    return found


def _same(value: Any) -> Any:
    return value


def _time(text: str, *, cut: bool, zone: bool = True) -> datetime:
    found = _TIME.fullmatch(text)
    if found is None:
        raise MisfitError
    year, month, day, hour, minute, second, part, offset = found.groups()
    if (offset and not zone) or (part and part[6:].strip("0") and not cut):
        raise MisfitError
    try:
        at = datetime(
            *(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)),
            int((part or "")[:6].ljust(6, "0")),
        )
        return at.replace(tzinfo=_zone(offset)).astimezone(UTC) if zone else at
    except (ValueError, OverflowError):
        raise MisfitError from None


def _zone(offset: str | None) -> timezone:
    if offset in (None, "Z", "UTC"):
        return UTC
    hours, minutes = int(offset[1:3]), int(offset[3:].lstrip(":") or 0)
    if hours * 60 + minutes > 18 * 60 or minutes > 59:
        raise MisfitError
    away = timedelta(hours=hours, minutes=minutes)
    return timezone(-away if offset[0] == "-" else away)


def _date(text: str) -> date:
    found = _DATE.fullmatch(text)
    try:
        return date(*map(int, found.groups())) if found else _fail()
    except ValueError:
        raise MisfitError from None


def _fail() -> Any:
    raise MisfitError


def _binary(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        raise MisfitError from None
    if base64.b64encode(found).decode() != text:
        raise MisfitError
    return found


def _struct(fields: tuple[tuple[str, bool, tuple[Any, ...]], ...]) -> Read:
    made = [(name, nullable, kind[0], _within(kind)) for name, nullable, kind in fields]

    def read(value: dict[str, Any]) -> tuple[Any, ...]:
        row = []
        for name, nullable, kind, make in made:
            part = value.get(name)
            if part is None and not nullable:
                raise MisfitError
            keeps = part is not None or (kind == "variant" and name in value)
            row.append(make(part) if keeps else None)
        return tuple(row)

    return read


def _map(one: Read) -> Read:
    return lambda value: {_string(name): one(part) for name, part in value.items()}


def _array(one: Read) -> Read:
    return lambda value: [one(part) for part in value]


def _one(nullable: bool, kind: tuple[Any, ...]) -> Read:
    """Return the conversion of a list's or a map's values. A VARIANT has a null of its own."""
    make, is_variant = _within(kind), kind[0] == "variant"

    def read(value: Any) -> Any:
        if value is None and not nullable:
            raise MisfitError
        return None if value is None and not is_variant else make(value)

    return read


def variant_of(value: Any) -> str:
    """Return the value as JSON, which Spark turns into a VARIANT."""
    out: list[str] = []
    _write(value, out)
    return "".join(out)


def _write(value: Any, out: list[str]) -> None:
    if type(value) is Number:
        out.append(_held(value))
    elif isinstance(value, str):
        out.append(encode_basestring(_string(value)))
    elif isinstance(value, dict):
        opening = "{"
        for name, part in value.items():
            if len(name) > _LONGEST_NAME:
                raise MisfitError(f"a key has more than {_LONGEST_NAME:,} characters")
            out.append(f"{opening}{encode_basestring(_string(name))}:")
            _write(part, out)
            opening = ","
        out.append("}" if value else "{}")
    elif isinstance(value, list):
        opening = "["
        for part in value:
            out.append(opening)
            _write(part, out)
            opening = ","
        out.append("]" if value else "[]")
    else:
        out.append(json.dumps(value))


def _held(number: str) -> str:
    """Return a number if a VARIANT holds it: as a DECIMAL of 38 digits, or as a DOUBLE."""
    if len(number) <= 15:
        if "e" not in number and "E" not in number:
            return number
    elif len(number) > _LONGEST_NUMBER:
        raise MisfitError(f"the number {shortened(number)} has {len(number)} digits")
    try:
        if "e" in number or "E" in number:
            _near(number, float(number))
            return number
        found = Decimal(number)
        digits, exponent = found.as_tuple()[1:]
        if len(digits) <= 38 and -int(exponent) <= 38:
            return number
        near = float(number)
        if near - near == 0 and found in (Decimal(repr(near)), Decimal(near)):
            return number
    except (MisfitError, ValueError, OverflowError):
        pass
    raise MisfitError(f"the number {shortened(number)}")


_MAKERS: dict[str, Read] = {
    "string": _string,
    "double": _double,
    "float": _float,
    "boolean": _same,
    "date": _date,
    "binary": _binary,
    "variant": variant_of,
}
