"""Converts JSON texts to columns if each text is plainly an object with fields of the right types.

It is stricter than `json_records`. Anything that another parser might read differently is doubtful:
duplicate fields, numbers or names of very many digits, deep nesting, times before 1900.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from kstorm_pipeline.arrow.record_layout import ColumnKind, DoubtfulError, LayoutField
from kstorm_pipeline.lineage import LAST_MILLISECOND

MOMENT: Final = pa.timestamp("us", tz="UTC")
_SMALL: Final = 1_000
"""Bytes. A shorter text cannot contain a number that is too long, or nesting that is too deep, for
Spark's parser."""
_LARGE: Final = 50_000
"""Bytes. A longer text may contain a name that Spark's parser rejects as too long."""
_DEEP: Final = 900
_LONG_NUMBER: Final = re.compile(rb"[0-9]{500}")
_SPACED_NAME: Final = re.compile(rb'"[ \t\r\n]+:')
_EXACT_WHOLE: Final = 2**53
"""A double represents every whole number up to this one exactly."""
_MANY_DIGITS: Final = re.compile(rb"[0-9.]{17}|[0-9]{16}[eE]")
"""A double may not represent a number of more than 15 digits exactly."""
_SMALL_NUMBER: Final = re.compile(rb"[0-9.][eE]-|0{20}")
"""A double may be zero although the number in such a text is not."""
_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?",
    re.ASCII,
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_FIRST_YEAR: Final = 1900
"""Before this year calendars and file formats differ."""
_decode: Final = msgspec.json.Decoder().decode


def read_objects(values: Sequence[bytes | None]) -> list[dict[str, Any]]:
    """Parse each text as a JSON object. Raises `DoubtfulError`."""
    try:
        # The decoder also refuses None.
        objects: list[Any] = list(map(_decode, values))  # type: ignore[arg-type]
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise DoubtfulError(f"a value is not plain JSON: {error}") from None
    if not set(map(type, objects)) <= {dict}:
        raise DoubtfulError("a value is not a JSON object")
    for text, found in zip(cast("Sequence[bytes]", values), objects, strict=True):
        if text.count(b":") != len(found) or len(text) > _SMALL:
            _look_closer(text, len(found))
    return objects


def column_of(
    field: LayoutField, objects: list[dict[str, Any]], texts: Sequence[bytes | None]
) -> pa.Array:
    """Return the field's column. `texts` are the texts that the objects were parsed from.

    Raises `DoubtfulError` if a value does not plainly fit.
    """
    name = field.json_name or field.name
    values = [each.get(name) for each in objects]
    kinds = set(map(type, values))
    if None.__class__ in kinds:
        if not field.nullable:
            raise DoubtfulError(f"field {field.name} is missing")
        kinds.discard(None.__class__)
    try:
        return _MAKERS[field.kind](field, values, kinds, texts)
    except (pa.ArrowException, ValueError, OverflowError, UnicodeError, TypeError) as error:
        raise DoubtfulError(f"field {field.name}: {error}") from None


def _look_closer(text: bytes, fields: int) -> None:
    """Raise `DoubtfulError` if another parser may read this object differently.

    `fields` is the number of the object's parsed fields. If the text has as many colons, no name
    occurs twice, because each field has one colon. The same is true if as many colons directly
    follow a quote and no name has a space after it.
    """
    if (
        len(text) > _LARGE
        or _LONG_NUMBER.search(text)
        or text.count(b"[") + text.count(b"{") > _DEEP
    ):
        raise DoubtfulError("a value is very large or deeply nested")
    if text.count(b'":') != fields or _SPACED_NAME.search(text):
        json.loads(text, object_pairs_hook=_without_twins)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DoubtfulError("a value has a field twice")
    return found


def _only(field: LayoutField, kinds: set[type], *allowed: type) -> None:
    if not kinds <= set(allowed):
        raise DoubtfulError(f"field {field.name} has an unexpected JSON type")


def _string(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, str)
    return pa.array(values, pa.string())


def _boolean(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, bool)
    return pa.array(values, pa.bool_())


def _whole(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, int)
    return pa.array(values, WHOLES[field.bits])  # raises if a value does not fit


def _double(
    field: LayoutField, values: list[Any], kinds: set[type], texts: Sequence[bytes | None]
) -> pa.Array:
    _only(field, kinds, float, int)
    for each, text in zip(values, texts, strict=True):
        if each is not None and not (
            abs(each) < _EXACT_WHOLE if type(each) is int else _plain(each, text)
        ):
            raise DoubtfulError(f"field {field.name} has a number near the limits of a double")
    return pa.array([None if each is None else float(each) for each in values], pa.float64())


def _plain(number: float, text: bytes | None) -> bool:
    if number:
        return math.isfinite(number)
    return math.copysign(1, number) > 0 and not _SMALL_NUMBER.search(text or b"")


def _decimal(
    field: LayoutField, values: list[Any], kinds: set[type], texts: Sequence[bytes | None]
) -> pa.Array:
    _only(field, kinds, str, int, float)
    found = [
        None if each is None else _exact(field, each, text)
        for each, text in zip(values, texts, strict=True)
    ]
    return pa.array(found, pa.decimal128(field.precision, field.scale))


def _exact(field: LayoutField, value: str | int | float, text: bytes | None) -> Decimal:
    """Return the exact number. Raises `DoubtfulError` if it is uncertain or has too many digits."""
    if isinstance(value, float) and (
        text is None or _MANY_DIGITS.search(text) or (not value and _SMALL_NUMBER.search(text))
    ):
        raise DoubtfulError(f"field {field.name} has many digits")
    written = value if isinstance(value, str) else repr(value)
    if not _DECIMAL.fullmatch(written):
        raise DoubtfulError(f"field {field.name} is not a plain decimal")
    number = Decimal(written)
    whole, _, part = written.lstrip("-").partition(".")
    if isinstance(value, float) and part == "0":
        part = ""
    if len(whole.lstrip("0")) > field.precision - field.scale or len(part) > field.scale:
        raise DoubtfulError(f"field {field.name} has too many digits")
    return number


def _moment(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, str)
    return pa.array([None if each is None else _time(field, each) for each in values], MOMENT)


def _time(field: LayoutField, text: str) -> datetime:
    if not _TIME.fullmatch(text):
        raise DoubtfulError(f"field {field.name} is not a plain time")
    found = datetime.fromisoformat(text)
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if found.year < _FIRST_YEAR:
        raise DoubtfulError(f"field {field.name} is before {_FIRST_YEAR}")
    return found


def _millis(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, int)
    there = [each for each in values if each is not None]
    if there and not (min(there) >= 0 and max(there) <= LAST_MILLISECOND):
        raise DoubtfulError(f"field {field.name} is not a time")
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(MOMENT)


def _date(field: LayoutField, values: list[Any], kinds: set[type], texts: object) -> pa.Array:
    _only(field, kinds, str)
    return pa.array([None if each is None else _day(field, each) for each in values], pa.date32())


def _day(field: LayoutField, text: str) -> date:
    if not _DATE.fullmatch(text) or int(text[:4]) < _FIRST_YEAR:
        raise DoubtfulError(f"field {field.name} is not a plain date")
    return date.fromisoformat(text)


WHOLES: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_Maker = Callable[[LayoutField, list[Any], "set[type]", "Sequence[bytes | None]"], pa.Array]
_MAKERS: Final[dict[ColumnKind, _Maker]] = {
    ColumnKind.STRING: _string,
    ColumnKind.WHOLE: _whole,
    ColumnKind.DOUBLE: _double,
    ColumnKind.DECIMAL: _decimal,
    ColumnKind.BOOLEAN: _boolean,
    ColumnKind.TIMESTAMP: _moment,
    ColumnKind.MILLIS: _millis,
    ColumnKind.DATE: _date,
}
