"""Writes values of Arrow as Spark's `to_json` does: decimals and times unchanged, bytes as base64."""

from __future__ import annotations

import base64
import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kstorm_pipeline.spark_variant import variant_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

IS_VARIANT: Final = {b"type": b"variant"}
"""The metadata of a column of variants."""
_ESCAPE: Final = re.compile(r"\\u00([01][0-9a-f])")
_PLAIN: Final = range(-3, 7)
"""The powers of ten for which Java writes a number without an exponent."""


def json_of(row: dict[str, Any], schema: Iterable[pa.Field]) -> str:
    """Return a row, or a struct in one, as an object. Nulls stay in it."""
    fields = (f"{_text(each.name)}:{_field(row[each.name], each)}" for each in schema)
    return "{" + ",".join(fields) + "}"


def _field(value: Any, of: pa.Field) -> str:
    if value is not None and of.metadata == IS_VARIANT:
        return variant_json(value["value"], value["metadata"], _text, _number)
    return _value(value, of.type)


def _value(value: Any, of: pa.DataType) -> str:
    if value is None:
        return "null"
    if pa.types.is_struct(of):
        return json_of(value, of)
    if pa.types.is_list(of):
        return "[" + ",".join(_value(each, of.value_type) for each in value) + "]"
    if pa.types.is_map(of):
        pairs = (f"{_text(key)}:{_value(each, of.item_type)}" for key, each in value)
        return "{" + ",".join(pairs) + "}"
    return _plain(value, of)


def _plain(value: Any, of: pa.DataType) -> str:
    if pa.types.is_boolean(of):
        return "true" if value else "false"
    if pa.types.is_floating(of):
        return _number(value if of == pa.float64() else np.float32(value))
    if pa.types.is_timestamp(of):
        return _text(_time(value))
    if pa.types.is_date(of):
        return _text(value.isoformat())
    if pa.types.is_binary(of):
        return _text(base64.b64encode(value).decode())
    return _text(value) if pa.types.is_string(of) else str(value)


def _text(text: str) -> str:
    """Return a string in JSON. Spark writes the digits of an escape in upper case."""
    found = json.dumps(text, ensure_ascii=False)
    if "\\u00" not in found:
        return found
    # A backslash in the text is doubled, so an escape follows an even number of them.
    parts = found.split("\\\\")
    return "\\\\".join(_ESCAPE.sub(lambda each: f"\\u00{each[1].upper()}", part) for part in parts)


def _time(at: datetime) -> str:
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _number(value: float | np.float32) -> str:
    """Return a number as Java writes it."""
    if not math.isfinite(value):
        return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    assert isinstance(exponent, int), "the number is finite"
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1 if value else 0
    minus = "-" if sign else ""
    if power not in _PLAIN:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{power}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    return f"{minus}{text[: power + 1].ljust(power + 1, '0')}.{text[power + 1 :] or '0'}"
