"""Decides whether Python can read a pipeline's records, and describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kstorm_pipeline.arrow.record_layout import ColumnKind, LayoutField, RecordLayout
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.json_records import JsonRecords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from kstorm_pipeline.pipeline import Pipeline

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_KINDS: dict[type[DataType], ColumnKind] = {
    StringType: ColumnKind.STRING,
    DoubleType: ColumnKind.DOUBLE,
    BooleanType: ColumnKind.BOOLEAN,
    TimestampType: ColumnKind.TIMESTAMP,
    DateType: ColumnKind.DATE,
}
_MOST_DIGITS = 18
"""The most digits that a decimal can have before the point, and after it."""


def layout_of(spark: SparkSession, pipeline: Pipeline) -> RecordLayout | None:
    """Return the shape of the records, or None if Python cannot read them."""
    records = pipeline.records
    if not isinstance(records, JsonRecords):
        return None
    columns = columns_of(records.schema)
    fields = [
        _field(each, records.fields.get(each.name, ""), millis=each.name in records.millis)
        for each in columns
    ]
    named = [*columns.names, *([records.key] if records.key is not None else [])]
    if None in fields or len({name.lower() for name in named}) < len(named):
        return None
    found = tuple(each for each in fields if each is not None)
    kinds = {each.name: each.kind for each in found} | (
        {records.key: ColumnKind.STRING} if records.key is not None else {}
    )
    if any(
        kinds.get(name) not in (ColumnKind.STRING, ColumnKind.WHOLE)
        for name in pipeline.identity_columns
    ):
        return None
    without = (
        frozenset(pipeline.without) if _told_without(spark, pipeline, columns) else frozenset()
    )
    return RecordLayout(found, pipeline.identity_columns, records.key, without)


def _field(column: StructField, json_name: str, *, millis: bool) -> LayoutField | None:
    found = _typed_field(column, millis=millis)
    return found and replace(found, json_name=json_name)


def _typed_field(column: StructField, *, millis: bool) -> LayoutField | None:
    kind = column.dataType
    if millis:
        return LayoutField(column.name, ColumnKind.MILLIS, column.nullable)
    if type(kind) in _BITS:
        return LayoutField(column.name, ColumnKind.WHOLE, column.nullable, bits=_BITS[type(kind)])
    if isinstance(kind, DecimalType):
        if kind.scale > _MOST_DIGITS or kind.precision - kind.scale > _MOST_DIGITS:
            return None
        return LayoutField(
            column.name,
            ColumnKind.DECIMAL,
            column.nullable,
            precision=kind.precision,
            scale=kind.scale,
        )
    found = _KINDS.get(type(kind))
    return (
        None
        if found is None or not _plain(kind)
        else LayoutField(column.name, found, column.nullable)
    )


def _plain(kind: DataType) -> bool:
    """Return False for text with a collation or a length limit."""
    return not isinstance(kind, StringType) or kind.simpleString() == "string"


def _told_without(spark: SparkSession, pipeline: Pipeline, columns: StructType) -> bool:
    """Return True if the reject conditions use none of the columns that silver leaves out."""
    records = pipeline.records
    assert isinstance(records, JsonRecords)
    kept = StructType([each for each in columns if each.name not in pipeline.without])
    try:
        for condition in records.reject.values():
            _ = spark.createDataFrame([], kept).where(sf.expr(condition)).columns
    except (AnalysisException, ParseException):
        return False
    return True
