"""Columns of Protobuf messages: their SQL types, and the conversion of messages to rows.

They match the defaults of Spark's `from_protobuf`, except that no value is truncated: unsigned
32-bit integers become BIGINT, unsigned 64-bit integers DECIMAL(20,0). A missing field is null, and
so is a zero in a field without presence (proto3 without `optional`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kstorm_pipeline.errors import PipelineError

Convert: TypeAlias = Callable[[Any], Any]

MOST_COLUMNS = 5_000
"""The most columns of a message, including nested ones.

A few types that each contain the next one twice result in millions of columns.
"""
_MOST_LEVELS = 100
"""The deepest nesting of messages that the decoder accepts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class UnfitError(Exception):
    """A value that does not fit its column. The text is the reason."""


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> Any:
    """Reject a proto2 string that is not UTF-8, which the decoder returns as bytes."""
    if value.__class__ is bytes:
        raise UnfitError("a string in it is not UTF-8")
    return value


_SCALARS: Mapping[int, tuple[DataType, Convert]] = {
    FieldDescriptor.TYPE_DOUBLE: (DoubleType(), _same),
    FieldDescriptor.TYPE_FLOAT: (FloatType(), _same),
    FieldDescriptor.TYPE_BOOL: (BooleanType(), _same),
    FieldDescriptor.TYPE_STRING: (StringType(), _text),
    FieldDescriptor.TYPE_BYTES: (BinaryType(), _same),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32),
        (IntegerType(), _same),
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64),
        (LongType(), _same),
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), (LongType(), _same)
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), (DecimalType(20, 0), Decimal)
    ),
}


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Converts messages of one type to rows."""

    columns: StructType
    empty: tuple[Any, ...]
    """The row of a message without any field."""
    places: Mapping[int, tuple[int, Convert]]
    """The field's position in the row and the conversion of its value, by field number."""

    def of(self, message: Any) -> tuple[Any, ...]:
        """Convert a message. Raises UnfitError."""
        row = list(self.empty)
        for field, value in message.ListFields():
            place = self.places.get(field.number)
            if place is not None:
                row[place[0]] = place[1](value)
        return tuple(row)


def rows_of(descriptor: Any, *, emit_defaults: bool, cut_times: bool = False) -> MessageRows:
    """Return the conversion for a message type.

    With `emit_defaults`, a zero in a field without presence is zero, not null. Raises PipelineError
    for a type that cannot be columns.
    """
    found = _Making(emit_defaults, cut_times).message(descriptor, ())
    if found is None:
        raise PipelineError(
            f"the Protobuf message {descriptor.full_name} has no fields that can be columns"
        )
    return found


class _Making:
    def __init__(self, emit_defaults: bool, cut_times: bool) -> None:
        self._emit_defaults, self._cut_times = emit_defaults, cut_times
        self._columns = 0

    def message(self, descriptor: Any, above: tuple[str, ...]) -> MessageRows | None:
        """Return the conversion, or None for a type without fields.

        Delta has no columns without inner columns, and Spark omits them too.
        """
        if descriptor.full_name in above:
            raise PipelineError(
                f"the Protobuf message {descriptor.full_name} contains itself "
                f"({' > '.join([*above, descriptor.full_name])}), which a column cannot: "
                "give the records a schema= without that field, which is then skipped"
            )
        if len(above) == _MOST_LEVELS:
            raise PipelineError(
                f"the Protobuf message {above[0]} has more than {_MOST_LEVELS} nested messages"
            )
        columns: list[StructField] = []
        empty, places = [], {}
        for field in descriptor.fields:
            found = self._field(field, (*above, descriptor.full_name))
            if found is None:
                continue
            places[field.number] = (len(columns), found[1])
            columns.append(StructField(field.name, found[0]))
            empty.append(self._absent(field, found[1]))
        _check_names(descriptor, columns)
        return MessageRows(StructType(columns), tuple(empty), places) if columns else None

    def _field(self, field: Any, above: tuple[str, ...]) -> tuple[DataType, Convert] | None:
        self._columns += 1
        if self._columns > MOST_COLUMNS:
            raise PipelineError(
                f"the Protobuf message {above[0]} has more than {MOST_COLUMNS:,} columns, including "
                "nested ones: give the records a schema= with fewer"
            )
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field.message_type.fields_by_name, above)
        found = self._single(field, above)
        if found is None or not field.is_repeated:
            return found
        kind, convert = found
        return ArrayType(kind), (
            list if convert is _same else lambda values: [convert(each) for each in values]
        )

    def _map(self, entry: Any, above: tuple[str, ...]) -> tuple[DataType, Convert] | None:
        key, value = self._single(entry["key"], above), self._single(entry["value"], above)
        if key is None or value is None:
            return None
        (key_kind, key_of), (value_kind, value_of) = key, value
        return MapType(key_kind, value_kind), lambda found: {
            key_of(k): value_of(v) for k, v in found.items()
        }

    def _single(self, field: Any, above: tuple[str, ...]) -> tuple[DataType, Convert] | None:
        """Return the type and conversion of one value of a field, even if it is repeated."""
        if field.enum_type is not None:
            names = {each.number: each.name for each in reversed(field.enum_type.values)}
            return StringType(), lambda number: names.get(number) or str(number)
        if field.message_type is None:
            return _SCALARS[field.type]
        if field.message_type.full_name == _TIMESTAMP:
            return TimestampType(), lambda value: _time(value, field.name, cut=self._cut_times)
        if field.message_type.full_name in _WRAPPERS:
            kind, convert = _SCALARS[field.message_type.fields_by_name["value"].type]
            return kind, lambda wrapper: convert(wrapper.value)
        within = self.message(field.message_type, above)
        return None if within is None else (within.columns, within.of)

    def _absent(self, field: Any, convert: Convert) -> Any:
        """Return the value of a field that is missing in the bytes."""
        if field.is_repeated:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            return {} if is_map else []
        if field.has_default_value or (self._emit_defaults and not field.has_presence):
            return convert(field.default_value)
        return None


def _time(value: Any, name: str, *, cut: bool) -> datetime:
    """Convert a time. Spark keeps microseconds, so finer ones don't fit, or they are `cut`."""
    if not 0 <= value.nanos < 1_000_000_000:
        raise UnfitError(f"field {name} has {value.nanos} nanoseconds, which is not a time")
    if value.nanos % 1000 and not cut:
        raise UnfitError(
            f"field {name} has nanoseconds, which a TIMESTAMP cannot hold: "
            "protobuf_records(cut_times=True) cuts them"
        )
    try:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise UnfitError(f"field {name} has a time outside the years 1 to 9999") from None


def _check_names(descriptor: Any, columns: list[StructField]) -> None:
    seen: dict[str, str] = {}
    for each in columns:
        other = seen.setdefault(each.name.lower(), each.name)
        if other != each.name:
            raise PipelineError(
                f"the Protobuf message {descriptor.full_name} has fields {other!r} and {each.name!r}, "
                "which are the same name to Spark: "
                "give the records a schema= with another name for one of them"
            )
