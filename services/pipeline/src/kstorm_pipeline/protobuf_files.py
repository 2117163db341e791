"""Gets the descriptors of a Protobuf schema from a registry, a generated class, or protoc.

All become one serialized set, from which executors create the message types. So executors need
neither the registry nor the user's classes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DESCRIPTOR, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstorm_pipeline.registry import Schema

_BRING_ALONG = (
    any_pb2,
    api_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
)
_WELL_KNOWN = {
    each.DESCRIPTOR.name: each.DESCRIPTOR
    for each in (*_BRING_ALONG, timestamp_pb2, type_pb2, wrappers_pb2)
} | {DESCRIPTOR.name: DESCRIPTOR}
"""Files that a registry lacks because every Protobuf library includes them."""


def files_of_schema(schema: Schema, known: bytes = b"") -> bytes:
    """Return the set of a registry's files for a schema. The schema's own file is the last.

    Raises PipelineError if they are invalid. Imports that the registry lacks are looked up in the
    set `known`, because serializers omit files that every library includes.
    """
    files = [*FileDescriptorSet.FromString(known).file]
    files += [_parsed(each, name) for name, each in schema.references.items()]
    return _sorted([*files, _parsed(schema, f"schema-{schema.id}.proto")], f"schema id {schema.id}")


def files_of_class(message_type: Any) -> bytes:
    """Return the set of a generated class's file and its imports."""
    files: dict[str, FileDescriptorProto] = {}

    def add(file: Any) -> None:
        if file.name not in files:
            for each in file.dependencies:
                add(each)
            files[file.name] = _copied(file)

    add(message_type.DESCRIPTOR.file)
    return _sorted([*files.values()], message_type.DESCRIPTOR.full_name)


def files_of_set(data: bytes) -> bytes:
    """Return the set that protoc wrote with `--descriptor_set_out`.

    Raises PipelineError if it is invalid.
    """
    try:
        files = list(FileDescriptorSet.FromString(data).file)
    except DecodeError:
        files = []
    if not files:
        raise PipelineError(
            "the reader's Protobuf schema is not a descriptor set: "
            "make one with protoc --include_imports --descriptor_set_out"
        )
    return _sorted(files, "the reader's Protobuf schema")


def message_names(files: bytes) -> dict[tuple[int, ...], str]:
    """Return the full names of the messages in a set's last file, by position.

    A record identifies its message by position.
    """
    file = FileDescriptorSet.FromString(files).file[-1]
    return dict(_named(file.message_type, (), f"{file.package}." if file.package else ""))


def open_message(files: bytes, name: str, whose: str = "the reader's Protobuf schema") -> Any:
    """Return the descriptor of a message in a set.

    Raises PipelineError if the set is inconsistent or lacks the message.
    """
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(files).file:
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise PipelineError(f"{whose} has no message {name!r}: correct message=") from None
    except TypeError as error:
        raise PipelineError(f"{whose} is inconsistent: {' '.join(str(error).split())}") from None


def _named(
    messages: Iterable[Any], above: tuple[int, ...], prefix: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    for at, each in enumerate(messages):
        yield (*above, at), prefix + each.name
        yield from _named(each.nested_type, (*above, at), f"{prefix}{each.name}.")


def _parsed(schema: Schema, name: str) -> FileDescriptorProto:
    """Parse a file from the registry. `name` is the name under which others import it."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (ValueError, DecodeError):
        raise PipelineError(
            f"the schema registry does not give schema id {schema.id} as a serialized descriptor "
            "(format=serialized): use one that does, which other Protobuf clients can use too"
        ) from None
    file.name = name
    return file


def _copied(descriptor: Any) -> FileDescriptorProto:
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    return file


def _sorted(files: list[FileDescriptorProto], whose: str) -> bytes:
    """Return a set in which each file follows its imports, so that the last file stays the last."""
    known = {file.name: file for file in files}
    found: dict[str, FileDescriptorProto] = {}

    def add(file: FileDescriptorProto, above: tuple[str, ...]) -> None:
        for name in file.dependency:
            if name in above:
                raise PipelineError(
                    f"{whose}: the files of its Protobuf schema import each other: {name}"
                )
            if name not in found:
                add(known.get(name) or _imported(name, whose), (*above, name))
        found[file.name] = file

    add(files[-1], (files[-1].name,))
    return bytes(FileDescriptorSet(file=found.values()).SerializeToString(deterministic=True))


def _imported(name: str, whose: str) -> FileDescriptorProto:
    """Return an import that was not given: a well-known file, or one of a generated class."""
    if name in _WELL_KNOWN:
        return _copied(_WELL_KNOWN[name])
    try:
        return _copied(descriptor_pool.Default().FindFileByName(name))
    except KeyError:
        raise PipelineError(
            f"{whose} imports {name!r}, which is missing: "
            "register it and refer to it, or give the records a schema= that has it"
        ) from None
