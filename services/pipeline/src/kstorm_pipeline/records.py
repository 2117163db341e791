"""Readers of records that need little or no declaration: any records, text, bytes.

A reader gets rows with the column `record`, a struct of bronze's columns, and adds columns. It
never raises, whatever the bytes are: one bad record must not stop a stream. Note that under Spark
4's ANSI rules an overflow is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LARGEST_VARIANT = 16_000_000
"""Bytes. Spark's variants hold 16 MiB, and a text grows a little when it becomes one."""


def any_records() -> Callable[[DataFrame], DataFrame]:
    """Read any records: `key` as text, `value` as a VARIANT.

    JSON keeps its structure in the VARIANT. Other text becomes a string, and other bytes stay
    bytes. A key that is not UTF-8 is null, but still in bronze.
    """
    return _read_any


def text_records() -> Callable[[DataFrame], DataFrame]:
    """Read `key` and `value` as text. A value that is not UTF-8 is unreadable."""
    return _read_text


def bytes_records() -> Callable[[DataFrame], DataFrame]:
    """Take `key` and `value` as unchanged bytes."""
    return _take_bytes


def text_of(field: str) -> Column:
    """Return a field of the record as text, or null if it is not UTF-8."""
    text = sf.col(f"record.{field}").cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def with_json(rows: DataFrame, name: str, text: Column) -> DataFrame:
    """Add a column with the text's JSON as a variant. Null unless the text is exactly one value."""
    # The brackets make the parser read the whole text. Without them it stops after the first value
    # and reports no error. The separate column ensures that the text is parsed only once, not again
    # in each branch of a condition.
    rows = rows.withColumn("__listed", sf.try_parse_json(sf.concat(sf.lit("["), text, sf.lit("]"))))
    second = sf.try_variant_get("__listed", "$[1]", "variant")
    return rows.withColumn(
        name, sf.when(second.isNull(), sf.try_variant_get("__listed", "$[0]", "variant"))
    ).drop("__listed")


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
    fits: Column | None = None
    if isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
        fits = sf.year(value).between(1, 9999)
    elif isinstance(kind, StructType):
        parts = [times_fit(value.getField(each.name), each.dataType) for each in kind]
        for part in parts:
            fits = part if fits is None else fits if part is None else fits & part
    elif isinstance(kind, (ArrayType, MapType)):
        of_map = isinstance(kind, MapType)
        inner = kind.valueType if isinstance(kind, MapType) else kind.elementType
        if times_fit(sf.lit(None), inner) is not None:
            fits = sf.forall(
                sf.map_values(value) if of_map else value, lambda each: _all_fit(each, inner)
            )
    return None if fits is None else sf.coalesce(fits, sf.lit(True))


def _all_fit(value: Column, kind: DataType) -> Column:
    fits = times_fit(value, kind)
    return sf.lit(True) if fits is None else fits


def _read_any(rows: DataFrame) -> DataFrame:
    rows = rows.withColumn("reason", too_large(sf.col("record.value")))
    value = sf.when(sf.col("reason").isNull(), sf.col("record.value"))
    rows = rows.withColumn("__bytes", value).withColumn("__raw", sf.col("__bytes").cast("string"))
    rows = rows.withColumn("__text", sf.when(sf.is_valid_utf8("__raw"), sf.col("__raw")))
    rows = with_json(rows, "__json", sf.col("__text"))
    found = sf.coalesce(
        "__json", sf.col("__text").cast("variant"), sf.col("__bytes").cast("variant")
    )
    return rows.withColumns({"key": text_of("key"), "value": found}).drop(
        "__bytes", "__raw", "__text", "__json"
    )


def _read_text(rows: DataFrame) -> DataFrame:
    value = text_of("value")
    reason = sf.when(sf.col("record.value").isNotNull() & value.isNull(), "the value is not UTF-8")
    return rows.withColumns({"key": text_of("key"), "value": value, "reason": reason})


def _take_bytes(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"key": sf.col("record.key"), "value": sf.col("record.value")})
