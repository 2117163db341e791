"""Checks that messages of one Protobuf schema can be read with another without changing a value.

The decoder itself does not report this. It treats a field of another type as unknown, and truncates
a number that is too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor as Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDER: Mapping[int, tuple[int, ...]] = {
    Kind.TYPE_INT32: (Kind.TYPE_INT64,),
    Kind.TYPE_SINT32: (Kind.TYPE_SINT64,),
    Kind.TYPE_UINT32: (Kind.TYPE_UINT64, Kind.TYPE_INT64),
    Kind.TYPE_BOOL: (Kind.TYPE_INT32, Kind.TYPE_INT64, Kind.TYPE_UINT32, Kind.TYPE_UINT64),
    Kind.TYPE_ENUM: (Kind.TYPE_INT32, Kind.TYPE_INT64),
    Kind.TYPE_STRING: (Kind.TYPE_BYTES,),
    Kind.TYPE_BYTES: (Kind.TYPE_STRING,),
}
"""For each type, the other types as which its values can be read. Bytes that are not UTF-8 fail on
reading."""


def difference(writer: Any, reader: Any) -> str | None:
    """Return why some messages of the writer cannot be read by the reader, or None.

    Fields are matched by number.
    """
    return _difference(writer, reader, set())


def _difference(writer: Any, reader: Any, seen: set[tuple[str, str]]) -> str | None:
    pair = writer.full_name, reader.full_name
    if pair in seen:
        return None
    seen.add(pair)
    for field in reader.fields:
        written = writer.fields_by_number.get(field.number)
        problem = None if written is None else _of_field(written, field, seen)
        if problem is not None:
            return problem
    return None


def _of_field(written: Any, field: Any, seen: set[tuple[str, str]]) -> str | None:
    before, now = _shown(written), _shown(field)
    fits = written.type == field.type or field.type in _WIDER.get(written.type, ())
    if (
        not fits
        or _is_map(written) != _is_map(field)
        or (written.is_repeated and not field.is_repeated)
    ):
        return (
            f"field {field.number} ({field.full_name}) is {before} in the writer's schema, "
            f"and {now} in the reader's"
        )
    if field.message_type is not None and written.message_type is not None:
        return _difference(written.message_type, field.message_type, seen)
    return None


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


_NAMES = {
    getattr(Kind, name): name.removeprefix("TYPE_").lower()
    for name in vars(Kind)
    if name.startswith("TYPE_")
}


def _shown(field: Any) -> str:
    name = "map" if _is_map(field) else _NAMES[field.type]
    return f"repeated {name}" if field.is_repeated and name != "map" else name
