"""Declares Protobuf messages in a few lines, as if protoc had generated their classes."""

from typing import Any

from google.protobuf import descriptor_pool, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message_factory import GetMessageClass

WELL_KNOWN = (timestamp_pb2, wrappers_pb2)


class File:
    """A file of messages. Fields are declared as in Protobuf: `optional string note = 2`,
    `map<string, int64> counts = 3`, `oneof way string mail = 4`. A type with a leading dot is a
    message, one with a leading colon an enum."""

    def __init__(
        self,
        *imports: "File",
        syntax: str = "proto3",
        name: str = "shop/order.proto",
        package: str = "shop",
    ) -> None:
        self.proto = FileDescriptorProto(name=name, package=package, syntax=syntax)
        self._imports = imports
        self.proto.dependency.extend(each.DESCRIPTOR.name for each in WELL_KNOWN)
        self.proto.dependency.extend(each.proto.name for each in imports)

    def message(self, name: str, *fields: str) -> "File":
        *above, own = name.split(".")
        parent: Any = self.proto
        for each in above:
            parent = next(
                found
                for found in (
                    *getattr(parent, "message_type", ()),
                    *getattr(parent, "nested_type", ()),
                )
                if found.name == each
            )
        made = (parent.nested_type if above else parent.message_type).add(name=own)
        for field in fields:
            _add(made, field, f".{self.proto.package}.{name}", self.proto.syntax)
        return self

    def enum(self, name: str, *values: str) -> "File":
        made = EnumDescriptorProto(name=name)
        for number, value in enumerate(values):
            made.value.add(name=value, number=number)
        self.proto.enum_type.append(made)
        return self

    def pool(self) -> Any:
        """Return a separate pool, because versions have the same names."""
        made = descriptor_pool.DescriptorPool()
        for each in WELL_KNOWN:
            made.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
        for file in self._imports:
            made.Add(file.proto)
        made.Add(self.proto)
        return made

    def of(self, name: str) -> Any:
        """Return the class of a message."""
        return GetMessageClass(self.pool().FindMessageTypeByName(f"{self.proto.package}.{name}"))


def _add(message: DescriptorProto, said: str, full_name: str, syntax: str) -> None:
    declared, number = said.rsplit(" = ", 1)
    *labels, kind, name = declared.replace(", ", ",").split()
    field = message.field.add(
        name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    if labels == ["repeated"]:
        field.label = FieldDescriptorProto.LABEL_REPEATED
    elif labels[:1] == ["oneof"]:
        names = [each.name for each in message.oneof_decl]
        if labels[1] not in names:
            message.oneof_decl.add(name=labels[1])
            names.append(labels[1])
        field.oneof_index = names.index(labels[1])
    elif labels == ["optional"] and syntax == "proto3":
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if not kind.startswith("map<"):
        _type(field, kind)
        return
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for at, each in enumerate(kind[4:-1].split(",")):
        _type(
            entry.field.add(
                name=("key", "value")[at], number=at + 1, label=FieldDescriptorProto.LABEL_OPTIONAL
            ),
            each,
        )
    field.label = FieldDescriptorProto.LABEL_REPEATED
    _type(field, f"{full_name}.{entry.name}")


def _type(field: FieldDescriptorProto, kind: str) -> None:
    if kind.startswith("."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
    elif kind.startswith(":"):
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, kind[1:]
    else:
        field.type = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
