"""JSON records by their columns: typed columns, or the reason why a record cannot be typed.

Strict on purpose. Spark's `from_json` accepts `{"count": "12"}` for a number and `{"word": 12}` for a string, and makes null
of what does not fit; here a field has the very JSON type that its column asks for, or the record is quarantined. Fields that
the columns do not name are ignored, so that a topology may add some.
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
    # Much money is written as text, because numbers of JavaScript cannot hold it.
    ((DecimalType,), ("STRING", *_NUMBER), "a number"),
    ((FractionalType,), _NUMBER, "a number"),
    ((BooleanType,), ("BOOLEAN",), "true or false"),
    ((TimestampType, TimestampNTZType), ("STRING",), "a time as text"),
    ((DateType,), ("STRING",), "a date as text"),
    ((BinaryType,), ("STRING",), "base64 as text"),
    ((StructType, MapType), ("OBJECT<",), "an object"),
    ((ArrayType,), ("ARRAY<",), "a list"),
)
"""Types of columns, with what Spark's `schema_of_variant` says of JSON that they take (how it begins, if more follows), none being
all, and how a person says it."""
_SPACE = r"' \t\r\n'"
"""What may be before JSON, in SQL."""


@dataclass(frozen=True)
class JsonRecords:
    """Reads a JSON object into columns: see `json_records`."""

    schema: str
    reject: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    millis: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame) -> DataFrame:
        """The rows with a column for each field, and `reason`."""
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
        """The fields, as the JSON has them."""
        columns = list(columns_of(self.schema))
        times = [each.name for each in columns if isinstance(each.dataType, TimestampType)]
        if wrong := [name for name in self.millis if name not in times]:
            raise PipelineError(
                f"json_records: millis names {wrong[0]!r}, which is no TIMESTAMP among its columns"
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
    """Read JSON objects into the columns of `schema` (SQL: `customer STRING NOT NULL, amount DECIMAL(18,2), items ARRAY<STRING>`).

    A field that is missing or null is null, unless its column is NOT NULL. `reject` has reasons by which a record that can be
    read is quarantined all the same, each with its condition in SQL: `{"the amount is negative": "amount < 0"}`. `key` names
    a column for the record's key as text. `millis` names columns of the type TIMESTAMP that the JSON has as whole numbers, the
    milliseconds since 1970.
    """
    if not isinstance(schema, str):
        raise PipelineError(
            f"json_records takes columns as SQL, such as 'customer STRING, amount DECIMAL(18,2)', not {schema!r}"
        )
    return JsonRecords(
        schema, dict(reject or {}), key, (millis,) if isinstance(millis, str) else tuple(millis)
    )


def read_json(rows: DataFrame, value: Column, fields: list[StructField], reason: str) -> DataFrame:
    """The rows with a column for each field of the JSON object that `value` has as bytes, and with a column that says why there is
    none, or null."""
    if taken := [each.name for each in fields if each.name.lower() in ("record", "reason")]:
        raise PipelineError(
            f"records of JSON cannot have a column {taken[0]!r}: the pipeline has one of that name beside them. Leave it out, and"
            " write a reader of your own if you need it"
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
    """The first thing that is wrong with a record, or null. Most are good, which takes fewer looks than to find what is wrong."""
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
    """Whether the field may be in its column; never null."""
    found = sf.col(_type(each.name))
    nothing = found.isNull() | (found == "VOID")
    fits = _is_of(found, each.dataType) & _becomes(each)
    return sf.coalesce(nothing | fits if each.nullable else ~nothing & fits, sf.lit(False))


def _becomes(each: StructField) -> Column:
    """Whether a field of the right JSON type is one that its column takes."""
    if isinstance(each.dataType, (StructType, ArrayType, MapType)):
        return _fits(sf.col(_raw(each.name)), each.dataType)
    return sf.col(each.name).isNotNull()


def _typed(value: Column, kind: DataType) -> Column:
    """A variant as this type; null where it does not fit, or is not there."""
    if isinstance(kind, VariantType):
        return value
    if isinstance(kind, BinaryType):
        return sf.try_to_binary(sf.try_variant_get(value, "$", "string"), sf.lit("base64"))
    typed = sf.try_variant_get(value, "$", kind.simpleString())
    if isinstance(kind, DecimalType):  # a cast would round
        exact = sf.try_variant_get(value, "$", "decimal(38,18)")
        return sf.when(exact.isNull() | (exact == typed), typed)
    if isinstance(kind, (TimestampType, DateType)):  # Python has no others
        return sf.when(sf.year(typed).between(1, 9999), typed)
    return typed


def _fits(value: Column, kind: DataType) -> Column:
    """Whether a variant, and all that is in it, has the JSON types that this type asks for. Null and nothing fit."""
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
    """The reasons so far, and then those of this field."""
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
    """Whether JSON of which `schema_of_variant` says this is what the type takes."""
    names = _json_type(kind)[0]
    begin = [found.startswith(name) if name[-1] in "<(" else found == name for name in names]
    return reduce(or_, begin) if begin else sf.lit(True)


def _json_type(kind: DataType) -> tuple[tuple[str, ...], str]:
    """What `schema_of_variant` says of JSON that the type takes, and how a person says it."""
    for kinds, names, words in _JSON_TYPES:
        if isinstance(kind, kinds):
            return names, words
    raise PipelineError(f"JSON has nothing for a column of the type {kind.simpleString()}")


def _raw(name: str) -> str:
    """The column that has a field as JSON, while records are read."""
    return f"__field_{name}"


def _type(name: str) -> str:
    """The column that says of which JSON type it is."""
    return f"__type_{name}"


def _path(name: str) -> str:
    if "'" in name:
        raise PipelineError(f"a field of JSON cannot be called {name!r} here, since it has a quote")
    return f"$['{name}']"
