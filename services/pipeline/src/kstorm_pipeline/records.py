"""Readers of records that need little or no declaration: any records, text, bytes.

A reader gets rows with the column `record`, a struct of bronze's columns, and adds columns. It
never raises, whatever the bytes are: one bad record must not stop a stream. Note that under Spark
4's ANSI rules an overflow is an error.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.exact_types import examined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LARGEST_VARIANT = 16_000_000
"""Bytes. Spark's variants hold 16 MiB, and a text grows a little when it becomes one."""


def any_records() -> Callable[[DataFrame], DataFrame]:
    """Read any records: `key` as text, `value` as a VARIANT.

    JSON keeps its structure in the VARIANT. Other text becomes a string, and other bytes stay
    bytes. JSON that a VARIANT cannot hold is unreadable. A key that is not UTF-8 is null, but still
    in bronze.
    """
    return _read_any


def text_records() -> Callable[[DataFrame], DataFrame]:
    """Read `key` and `value` as text. Bytes that are not UTF-8 are unreadable."""
    return _read_text


def bytes_records() -> Callable[[DataFrame], DataFrame]:
    """Take `key` and `value` as unchanged bytes."""
    return _take_bytes


def text_of(field: str) -> Column:
    """Return a field of the record as text, or null if it is not UTF-8."""
    text = sf.col(f"record.{field}").cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def key_as_text(rows: DataFrame, name: str) -> DataFrame:
    """Add the record's key as a column, and a reason if it is not UTF-8.

    The rows have the column `reason`.
    """
    rows = rows.withColumn(name, text_of("key"))
    return rows.withColumn(
        "reason", sf.coalesce("reason", _unreadable_key(sf.col(quoted([name])[0])))
    )


def _unreadable_key(key: Column) -> Column:
    return sf.when(sf.col("record.key").isNotNull() & key.isNull(), "the key is not UTF-8")


def check_key(reader: str, key: str, names: Iterable[str]) -> None:
    """Raise PipelineError if the column for the key would replace another."""
    taken = [name for name in (*names, "record", "reason") if name.lower() == key.lower()]
    if taken:
        raise PipelineError(
            f"{reader}: key={key!r} is also the name of the column {taken[0]!r}: "
            "give the key's column another name"
        )


def too_large(bytes_: Column) -> Column:
    """Return the reason why a value is too large for a variant, or null."""
    size = sf.octet_length(bytes_)
    text = sf.concat(sf.lit("the value is too large for a VARIANT: "), size, sf.lit(" bytes"))
    return sf.when(size > _LARGEST_VARIANT, text)


def rejected(reject: Mapping[str, str]) -> Column:
    """Return the first reason whose SQL condition is true, or null."""
    reason = sf.when(sf.lit(False), "")
    for text, condition in reject.items():
        reason = reason.when(sf.expr(condition), text)
    return reason


def times_fit(value: Column, kind: DataType) -> Column | None:
    """Return the condition that Python can read all times in a value. None if its type has none."""
    return _all_fit(value, kind, _time_fits)


def texts_fit(value: Column, kind: DataType) -> Column | None:
    """Return a condition that is true if all texts in a value are UTF-8. None if its type has none."""
    return _all_fit(value, kind, _text_fits)


def _time_fits(value: Column, kind: DataType) -> Column | None:
    if isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
        return sf.year(value).between(1, 9999)
    return None


def _text_fits(value: Column, kind: DataType) -> Column | None:
    return sf.is_valid_utf8(value) if isinstance(kind, StringType) else None


_Fits: TypeAlias = "Callable[[Column, DataType], Column | None]"


def _all_fit(value: Column, kind: DataType, fits: _Fits) -> Column | None:
    """Return a condition that is true if all simple values in a value fit.

    None if `fits` returns None for all of them.
    """
    if isinstance(kind, StructType):
        parts = [_all_fit(value.getField(each.name), each.dataType, fits) for each in kind]
    elif isinstance(kind, ArrayType):
        parts = [_each_fits(value, kind.elementType, fits)]
    elif isinstance(kind, MapType):
        parts = [
            _each_fits(sf.map_keys(value), kind.keyType, fits),
            _each_fits(sf.map_values(value), kind.valueType, fits),
        ]
    else:
        parts = [fits(value, kind)]
    found = [part for part in parts if part is not None]
    return sf.coalesce(reduce(and_, found), sf.lit(True)) if found else None


def _each_fits(values: Column, kind: DataType, fits: _Fits) -> Column | None:
    if _all_fit(sf.lit(None), kind, fits) is None:
        return None
    return sf.forall(values, lambda each: _condition(_all_fit(each, kind, fits)))


def _condition(fits: Column | None) -> Column:
    return sf.lit(True) if fits is None else fits


def _read_any(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn("reason", too_large(sf.col("record.value")))
    value = sf.when(sf.col("reason").isNull(), sf.col("record.value"))
    rows = rows.withColumn("__bytes", value).withColumn("__raw", sf.col("__bytes").cast("string"))
    rows = rows.withColumn("__text", sf.when(sf.is_valid_utf8("__raw"), sf.col("__raw")))
    rows = rows.withColumn("__found", examined(sf.col("__bytes")))
    rows = rows.withColumn("reason", sf.coalesce("reason", "__found.reason"))
    found = sf.coalesce(
        sf.try_parse_json(sf.when(sf.col("__found.json"), sf.col("__text"))),
        sf.col("__text").cast("variant"),
        sf.col("__bytes").cast("variant"),
    )
    return rows.withColumns({"key": text_of("key"), "value": found}).drop(
        "__bytes", "__raw", "__text", "__found"
    )


def _read_text(rows: DataFrame) -> DataFrame:
    value = text_of("value")
    reason = sf.when(sf.col("record.value").isNotNull() & value.isNull(), "the value is not UTF-8")
    return key_as_text(rows.withColumns({"value": value, "reason": reason}), "key")


def _take_bytes(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"key": sf.col("record.key"), "value": sf.col("record.value")})
