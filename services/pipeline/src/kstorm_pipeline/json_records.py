"""Reads JSON records into declared columns, or gives the reason why a record does not fit.

It is strict on purpose. Spark's `from_json` accepts `{"count": "12"}` for a number and `{"word":
12}` for a string, and turns values that don't fit into null. Here a field must have exactly the
JSON type of its column, or the record is quarantined. Undeclared fields are ignored, so that a
topology can add some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from kstorm_pipeline.ddl import columns_of, quoted
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.lineage import LAST_MILLISECOND
from kstorm_pipeline.records import rejected, text_of, too_large, with_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_NUMBER = ("BIGINT", "DECIMAL(", "DOUBLE", "FLOAT")
_JSON_TYPES: tuple[tuple[tuple[type[DataType], ...], tuple[str, ...], str], ...] = (
    ((VariantType,), (), "a value"),
    ((StringType,), ("STRING",), "a string"),
    ((IntegralType,), ("BIGINT",), "a whole number"),
    # Amounts of money are often text, because JavaScript's numbers cannot represent them.
    ((DecimalType,), ("STRING", *_NUMBER), "a number"),
    ((FractionalType,), _NUMBER, "a number"),
    ((BooleanType,), ("BOOLEAN",), "true or false"),
    ((TimestampType, TimestampNTZType), ("STRING",), "a time as text"),
    ((DateType,), ("STRING",), "a date as text"),
    ((BinaryType,), ("STRING",), "base64 as text"),
    ((StructType, MapType), ("OBJECT<",), "an object"),
    ((ArrayType,), ("ARRAY<",), "a list"),
)
"""Column types, the accepted JSON types in the words of Spark's `schema_of_variant`, and a
description for people.

A JSON type that ends with `<` or `(` is a prefix. An empty tuple accepts any.
"""
_SPACE = r"' \t\r\n'"
"""Characters that may precede JSON, as an SQL literal."""


@dataclass(frozen=True)
class JsonRecords:
    """Reads a JSON object into columns: see `json_records`."""

    schema: str
    reject: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    millis: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Add a column for each field, and `reason`."""
        rows = read_json(rows, sf.col("record.value"), self._fields(), "reason")
        for name, column in zip(self.millis, map(sf.col, quoted(self.millis)), strict=True):
            there = column.isNull() | column.between(0, LAST_MILLISECOND)
            wrong = f"field {name} is not a time in milliseconds between the years 1970 and 9999"
            rows = rows.withColumn("reason", sf.coalesce("reason", sf.when(~there, wrong)))
            rows = rows.withColumn(name, sf.when(there, sf.timestamp_millis(column)))
        if self.key is not None:
            rows = rows.withColumn(self.key, text_of("key"))
        if self.reject:
            rows = rows.withColumn("reason", sf.coalesce("reason", rejected(self.reject)))
        return rows

    def _fields(self) -> list[StructField]:
        """The fields with their types in JSON."""
        columns = list(columns_of(self.schema))
        times = [each.name for each in columns if isinstance(each.dataType, TimestampType)]
        if wrong := [name for name in self.millis if name not in times]:
            raise PipelineError(
                f"json_records: millis has {wrong[0]!r}, which is not a TIMESTAMP column"
            )
        return [
            StructField(each.name, LongType(), each.nullable) if each.name in self.millis else each
            for each in columns
        ]


def json_records(
    schema: str,
    *,
    reject: Mapping[str, str] | None = None,
    key: str | None = None,
    millis: str | Iterable[str] = (),
) -> JsonRecords:
    """Read JSON objects into the columns of `schema`.

    `schema` is SQL: `customer STRING NOT NULL, amount DECIMAL(18,2), items ARRAY<STRING>`. A
    missing or null field is null, unless its column is NOT NULL.

    `reject` maps reasons to SQL conditions: `{"the amount is negative": "amount < 0"}`. A readable
    record that meets a condition is quarantined. `key` names a column for the record's key as text.
    `millis` names columns of type TIMESTAMP whose JSON values are integers, the milliseconds since
    1970.
    """
    if not isinstance(schema, str):
        raise PipelineError(
            "json_records takes columns as SQL, such as 'customer STRING, amount DECIMAL(18,2)', "
            f"not {schema!r}"
        )
    return JsonRecords(
        schema, dict(reject or {}), key, (millis,) if isinstance(millis, str) else tuple(millis)
    )


def read_json(rows: DataFrame, value: Column, fields: list[StructField], reason: str) -> DataFrame:
    """Add a column for each field of the JSON object in `value` (bytes), and a column `reason`.

    The latter contains the reason why the value is unreadable, or null.
    """
    if taken := [each.name for each in fields if each.name.lower() in ("record", "reason")]:
        raise PipelineError(
            f"JSON records cannot have a column {taken[0]!r}: the pipeline has its own of that name. "
            "Leave it out, or write your own reader if you need it"
        )
    rows = rows.withColumns(
        {"__bytes": value, "__large": too_large(value), "__text": value.cast("string")}
    )
    valid = sf.col("__large").isNull() & sf.is_valid_utf8("__text")
    rows = with_json(rows, "__json", sf.when(valid, sf.col("__text")))
    names = [each.name for each in fields]
    rows = rows.withColumns(
        {_raw(name): sf.try_variant_get("__json", _path(name), "variant") for name in names}
    )
    typed = {each.name: _typed(sf.col(_raw(each.name)), each.dataType) for each in fields}
    rows = rows.withColumns(
        typed | {_type(name): sf.schema_of_variant(_raw(name)) for name in names}
    )
    rows = rows.withColumn(reason, _reason(fields))
    return rows.drop(
        "__bytes", "__large", "__text", "__json", *map(_raw, names), *map(_type, names)
    )


def _reason(fields: list[StructField]) -> Column:
    """Return the first error in a record, or null.

    Most records are good, and checking that first is cheaper than searching for an error.
    """
    is_object = sf.expr(f"trim(LEADING {_SPACE} FROM __text)").startswith("{")
    good = reduce(and_, map(_is_good, fields), sf.col("__json").isNotNull() & is_object)
    reason = (
        sf.when(good, sf.lit(None).cast("string"))
        .when(sf.col("__bytes").isNull(), "the value is null")
        .when(sf.col("__large").isNotNull(), sf.col("__large"))
        .when(~sf.is_valid_utf8("__text"), "the value is not UTF-8")
        .when(sf.col("__json").isNull(), "the value is not JSON")
        .when(~is_object, "the value is not a JSON object")
    )
    for each in fields:
        reason = _check(reason, each)
    return reason


def _is_good(each: StructField) -> Column:
    """Return the condition that the field fits its column. Never null."""
    found = sf.col(_type(each.name))
    nothing = found.isNull() | (found == "VOID")
    fits = _is_of(found, each.dataType) & _becomes(each)
    return sf.coalesce(nothing | fits if each.nullable else ~nothing & fits, sf.lit(False))


def _becomes(each: StructField) -> Column:
    """Return the condition that a field of the right JSON type has an acceptable value."""
    if isinstance(each.dataType, (StructType, ArrayType, MapType)):
        return _fits(sf.col(_raw(each.name)), each.dataType)
    return sf.col(each.name).isNotNull()


def _typed(value: Column, kind: DataType) -> Column:
    """Convert a variant to this type: null if it does not fit or is missing."""
    if isinstance(kind, VariantType):
        return value
    if isinstance(kind, BinaryType):
        return sf.try_to_binary(sf.try_variant_get(value, "$", "string"), sf.lit("base64"))
    typed = sf.try_variant_get(value, "$", kind.simpleString())
    if isinstance(kind, DecimalType):  # a plain cast would round
        exact = sf.try_variant_get(value, "$", "decimal(38,18)")
        return sf.when(exact.isNull() | (exact == typed), typed)
    if isinstance(kind, (TimestampType, DateType)):  # Python supports no other years
        return sf.when(sf.year(typed).between(1, 9999), typed)
    return typed


def _fits(value: Column, kind: DataType) -> Column:
    """Return the condition that a variant and all values in it have the JSON types of this type.

    Null and missing values fit.
    """
    found = sf.schema_of_variant(value)
    fits = _is_of(found, kind)
    if isinstance(kind, StructType):
        for each in kind:
            part = sf.try_variant_get(value, _path(each.name), "variant")
            there = sf.coalesce(sf.schema_of_variant(part) != "VOID", sf.lit(False))
            fits = fits & (
                _fits(part, each.dataType) if each.nullable else there & _fits(part, each.dataType)
            )
    elif isinstance(kind, ArrayType):
        parts = sf.try_variant_get(value, "$", "array<variant>")
        fits = fits & sf.forall(parts, lambda part: _fits(part, kind.elementType))
    elif isinstance(kind, MapType):
        parts = sf.map_values(sf.try_variant_get(value, "$", "map<string,variant>"))
        fits = fits & sf.forall(parts, lambda part: _fits(part, kind.valueType))
    else:
        fits = fits & _typed(value, kind).isNotNull()
    return sf.when(found.isNull() | (found == "VOID"), sf.lit(True)).otherwise(fits)


def _check(reason: Column, each: StructField) -> Column:
    """Append this field's reasons to those so far."""
    name, kind = each.name, each.dataType
    found = sf.col(_type(name))
    wrong = sf.concat(sf.lit(f"field {name} is not {_json_type(kind)[1]} but "), found)
    misfit = sf.concat(sf.lit(f"field {name} does not fit {kind.simpleString().upper()}: "), found)
    if not each.nullable:
        reason = reason.when(found.isNull(), f"field {name} is missing").when(
            found == "VOID", wrong
        )
    there = found.isNotNull() & (found != "VOID")
    return reason.when(there & ~_is_of(found, kind), wrong).when(there & ~_becomes(each), misfit)


def _is_of(found: Column, kind: DataType) -> Column:
    """Return the condition that the type `found` by `schema_of_variant` fits the column type."""
    names = _json_type(kind)[0]
    begin = [found.startswith(name) if name[-1] in "<(" else found == name for name in names]
    return reduce(or_, begin) if begin else sf.lit(True)


def _json_type(kind: DataType) -> tuple[tuple[str, ...], str]:
    """Return the JSON types of `schema_of_variant` that the column type accepts, in words too."""
    for kinds, names, words in _JSON_TYPES:
        if isinstance(kind, kinds):
            return names, words
    raise PipelineError(f"JSON has no values for a column of the type {kind.simpleString()}")


def _raw(name: str) -> str:
    """Name of the temporary column for a field's JSON."""
    return f"__field_{name}"


def _type(name: str) -> str:
    """Name of the temporary column for a field's JSON type."""
    return f"__type_{name}"


def _path(name: str) -> str:
    if "'" in name:
        raise PipelineError(
            f"a JSON field cannot be called {name!r} here, because the name has a quote"
        )
    return f"$['{name}']"
