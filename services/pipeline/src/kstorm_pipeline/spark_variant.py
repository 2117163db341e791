"""Writes a value of Spark's type VARIANT as JSON, as Spark does.

`VariantVal.toJson` of PySpark escapes all characters outside ASCII, rounds long decimals and writes
numbers as Python does.
"""

from __future__ import annotations

import base64
from array import array
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.variant_utils import VariantUtils

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS: Final = 60
"""More than the 38 that a decimal may have."""
_UTILS = cast("Any", VariantUtils)
VARIANT: Final = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
"""The columns that a VARIANT has in a file."""


def variant_json(
    value: bytes,
    metadata: bytes,
    text: Callable[[str], str],
    number: Callable[[float | np.float32], str],
    at: int = 0,
) -> str:
    """Return the value at a position. `text` and `number` write strings and numbers as JSON.

    Raises ValueError for a time, which Spark writes in several ways.
    """
    kind = _UTILS._get_type(value, at)

    def part(where: int) -> str:
        return variant_json(value, metadata, text, number, where)

    if kind is dict:
        return str(
            _UTILS._handle_object(
                value,
                metadata,
                at,
                lambda pairs: (
                    "{" + ",".join(f"{text(key)}:{part(where)}" for key, where in pairs) + "}"
                ),
            )
        )
    if kind is array:
        return str(
            _UTILS._handle_array(value, at, lambda places: f"[{','.join(map(part, places))}]")
        )
    with localcontext(prec=_DIGITS):
        found = _UTILS._get_scalar(kind, value, metadata, at, "UTC")
    if isinstance(found, float) and _UTILS._get_type_info(value, at)[1] == _UTILS.FLOAT:
        found = np.float32(found)
    return _scalar(found, text, number)


def _scalar(
    value: Any, text: Callable[[str], str], number: Callable[[float | np.float32], str]
) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, datetime):
        raise ValueError("a variant is a time")
    if isinstance(value, (str, date)):
        return text(str(value))
    if isinstance(value, bytes):
        return text(base64.b64encode(value).decode())
    if isinstance(value, Decimal):
        with localcontext(prec=_DIGITS):
            return format(value.normalize(), "f")
    return number(value) if isinstance(value, (float, np.float32)) else str(value)
