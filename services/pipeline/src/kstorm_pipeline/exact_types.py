"""Runs the exact JSON reader in Spark's workers, for columns of Spark's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from kstorm_pipeline import exact_json, exact_values
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column

    from kstorm_pipeline.exact_json import Field

# The workers of a Spark cluster have Python, but this package may be missing there.
for _module in (exact_json, exact_values):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]

NOT_IN_DELTA = " ,;{}()\n\t="
"""Characters that names of Delta's columns cannot have."""
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NAMES: dict[type[DataType], str] = {
    StringType: "string",
    DoubleType: "double",
    FloatType: "float",
    BooleanType: "boolean",
    DateType: "date",
    BinaryType: "binary",
    VariantType: "variant",
}


class Columns:
    """Columns whose values an exact reader takes from JSON.

    `names` has the JSON name of each column that has another, by the column's path, such as
    `address.zip_code`. `millis` are the TIMESTAMP columns whose JSON values are milliseconds. With
    `cut`, times lose the digits after microseconds.
    """

    def __init__(
        self,
        columns: Iterable[StructField],
        names: Mapping[str, str] | None = None,
        millis: Iterable[str] = (),
        *,
        cut: bool = False,
    ) -> None:
        self._columns = list(columns)
        self._names, self._millis, self._cut = dict(names or {}), set(millis), cut
        self._unused = set(self._names)
        self._fields = tuple(map(self._field, self._columns))
        undeclared = self._millis - {each.name for each in self._columns}
        if undeclared:
            raise _no_time(min(undeclared))
        if self._unused:
            wrong = min(self._unused)
            raise PipelineError(
                f"fields= names the column {wrong!r}, which is not declared: correct the name "
                "(write a field of a STRUCT as `column.field`)"
            )

    def reader(self) -> Callable[[Column], Column]:
        """Return a function of bytes that gives a struct of `reason` and `value`, the columns."""
        read = sf.udf(
            exact_json.reader_of(self._fields),
            StructType(
                [
                    StructField("reason", StringType()),
                    StructField("value", _sent(StructType(self._columns))),
                ]
            ),
            useArrow=False,
        )
        # If it were deterministic, Spark would call it again for each condition on its result.
        return read.asNondeterministic()

    def of(self, value: Column) -> dict[str, Column]:
        return {
            each.name: _received(value.getField(each.name), each.dataType) for each in self._columns
        }

    def _field(self, column: StructField) -> Field:
        kind = column.dataType
        shown = kind.simpleString().upper()
        exact: tuple[Any, ...] = ("millis",)
        if column.name not in self._millis:
            exact = self._kind(kind, column.name)
        elif not isinstance(kind, TimestampType):
            raise _no_time(column.name)
        return self._name(column.name, column.name), column.nullable, exact, shown

    def _name(self, path: str, name: str) -> str:
        self._unused.discard(path)
        return self._names.get(path, name)

    def _kind(self, kind: DataType, path: str) -> tuple[Any, ...]:
        if type(kind) in _BITS:
            return "whole", _BITS[type(kind)]
        if isinstance(kind, DecimalType):
            return "decimal", kind.precision, kind.scale
        if isinstance(kind, TimestampType):
            return "timestamp", self._cut
        if isinstance(kind, TimestampNTZType):
            return "timestamp_ntz", self._cut
        if isinstance(kind, StructType):
            return "struct", tuple(
                (
                    self._name(f"{path}.{each.name}", each.name),
                    each.nullable,
                    self._kind(each.dataType, f"{path}.{each.name}"),
                )
                for each in kind
            )
        if isinstance(kind, ArrayType):
            return "array", kind.containsNull, self._kind(kind.elementType, path)
        if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
            return "map", kind.valueContainsNull, self._kind(kind.valueType, path)
        name = _NAMES.get(type(kind))
        if name is None:
            raise PipelineError(
                f"JSON has no values for the column {path!r} of the type {kind.simpleString()}: "
                + (
                    "declare a map with keys of the type STRING"
                    if isinstance(kind, MapType)
                    else "declare it as STRING or VARIANT, and convert it in a silver function"
                )
            )
        return (name,)


def _no_time(name: str) -> PipelineError:
    return PipelineError(f"json_records: millis has {name!r}, which is not a TIMESTAMP column")


def examined(value: Column) -> Column:
    """Return a struct for bytes: `json`, whether they are exactly one JSON value, and `reason`.

    The reason is why no VARIANT can hold the JSON, or null.
    """
    found = sf.udf(exact_json.examiner(), columns_of("json BOOLEAN, reason STRING"), useArrow=False)
    return found.asNondeterministic()(value)


def _sent(kind: Any) -> Any:
    """Return the type in which a worker returns a value: a VARIANT is text, and everything is nullable."""
    if isinstance(kind, VariantType):
        return StringType()
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _sent(each.dataType)) for each in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_sent(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _sent(kind.valueType))
    return kind


def _received(value: Column, kind: DataType) -> Column:
    """Return a worker's value, converted to the type of its column."""
    if not _has_variant(kind):
        return value
    if isinstance(kind, StructType):
        parts = [
            _received(value.getField(each.name), each.dataType).alias(each.name) for each in kind
        ]
        return sf.when(value.isNotNull(), sf.struct(*parts))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return sf.transform(value, lambda each: _received(each, element))
    if isinstance(kind, MapType):
        inner = kind.valueType
        return sf.transform_values(value, lambda _, each: _received(each, inner))
    return sf.try_parse_json(value)


def _has_variant(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_variant(each.dataType) for each in kind)
    if isinstance(kind, ArrayType):
        return _has_variant(kind.elementType)
    if isinstance(kind, MapType):
        return _has_variant(kind.valueType)
    return isinstance(kind, VariantType)


def check_names(whose: str, columns: StructType, remedy: str = "", *, signs: str = "") -> None:
    """Raise PipelineError if Spark or Delta cannot have these columns, nested ones included.

    Their own messages come late, and name neither the table nor the remedy. `signs` are the
    characters that names must not have.
    """
    _check(whose, columns, "", remedy, signs)


def _check(whose: str, kind: DataType, path: str, remedy: str, signs: str) -> None:
    if isinstance(kind, ArrayType):
        _check(whose, kind.elementType, path, remedy, signs)
    elif isinstance(kind, MapType):
        _check(whose, kind.valueType, path, remedy, signs)
    if not isinstance(kind, StructType):
        return
    if not kind.names and path:
        raise PipelineError(
            f"{whose} the column {path!r} without fields (STRUCT<>), which Delta cannot store: "
            "leave it out, or declare it as VARIANT"
        )
    seen: dict[str, str] = {}
    for each in kind:
        name = f"{path}.{each.name}" if path else each.name
        if not each.name.strip():
            raise PipelineError(f"{whose} a column with an empty name, {name!r}: name it{remedy}")
        bad = next((sign for sign in each.name if sign in signs), None)
        if bad is not None:
            raise PipelineError(
                f"{whose} the column {name!r}, but Delta has no columns with {bad!r} in their "
                f"names: give it another name{remedy}"
            )
        if each.name.lower() in seen:
            raise PipelineError(
                f"{whose} the columns {seen[each.name.lower()]!r} and {name!r}, which are the same "
                f"name to Spark: give one another name{remedy}"
            )
        seen[each.name.lower()] = name
        _check(whose, each.dataType, name, remedy, signs)
