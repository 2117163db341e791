"""Computes once per message class how many values each field adds, by the field's tag."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from google.protobuf import symbol_database
from google.protobuf.descriptor import Descriptor, FieldDescriptor


class WireType(IntEnum):
    """Wire types, the last three bits of a tag, which define how to skip the value."""

    NUMBER = 0
    """A varint."""
    EIGHT = 1
    LENGTH = 2
    """Preceded by the length: strings, messages, packed numbers."""
    GROUP = 3
    """Fields up to the end tag."""
    GROUP_END = 4
    FOUR = 5


MOST_PLACES: Final = 4_000_000
"""Maximum fields in the types of all nested messages, set or not. Each takes up to 16 bytes."""

_WIDE: Final = {
    FieldDescriptor.TYPE_DOUBLE: WireType.EIGHT,
    FieldDescriptor.TYPE_FIXED64: WireType.EIGHT,
    FieldDescriptor.TYPE_SFIXED64: WireType.EIGHT,
    FieldDescriptor.TYPE_FLOAT: WireType.FOUR,
    FieldDescriptor.TYPE_FIXED32: WireType.FOUR,
    FieldDescriptor.TYPE_SFIXED32: WireType.FOUR,
    FieldDescriptor.TYPE_STRING: WireType.LENGTH,
    FieldDescriptor.TYPE_BYTES: WireType.LENGTH,
    FieldDescriptor.TYPE_MESSAGE: WireType.LENGTH,
    FieldDescriptor.TYPE_GROUP: WireType.GROUP,
}


@dataclass(slots=True, eq=False)
class MessageType:
    """A message type."""

    descriptor: Descriptor | None
    fields: "dict[int, FieldCost]" = field(default_factory=dict)
    """Fields by tag."""
    places: int = 0
    """Number of fields in the type. Each takes memory, set or not."""
    is_any: bool = False


UNKNOWN: Final = MessageType(None)
"""The type of an unknown group."""


@dataclass(slots=True, frozen=True, eq=False)
class FieldCost:
    """Values that each occurrence of a field adds."""

    bit: int
    """A value with a single bit, which identifies the field in its message."""
    values: int
    """Number of values that each occurrence adds, without nested ones."""
    first: int = 0
    """Additional values of the first occurrence: the field's name, and the list or dict."""
    kind: MessageType | None = None
    """The type of nested messages."""
    packed: WireType | None = None
    """The wire type of the elements in a packed field."""
    merges: bool = False
    """True if a second occurrence is merged into the first one."""


class MessageTypes:
    """Types in messages of one class. Types in an `Any` and extensions are added when found."""

    def __init__(self, root: Descriptor, *, as_dicts: bool = True) -> None:
        """`as_dicts`: messages become dicts, which contain names, lists and what an `Any` holds.

        Otherwise only the values of a decoded message are counted.
        """
        self.as_dicts = as_dicts
        self._known: dict[Descriptor, MessageType] = {}
        self.has_any = False
        """True if a message may contain an `Any`."""
        self.root = self.of(root)
        self.widest = max(kind.places for kind in self._known.values())
        """Maximum number of fields of a type, except for types in an `Any` and extensions."""
        self.is_open = self.has_any or any(each.is_extendable for each in self._known)
        """True if further types may occur."""

    def harmless(self, most: int) -> int:
        """Return a size up to which messages have at most `most` values: a message takes two bytes.

        In a dict, a map entry of two bytes is a key and a value. The first entry also counts the
        map itself and its name.
        """
        values_a_byte = 2 if self.as_dicts else 1
        return min(most // values_a_byte, 2 * (MOST_PLACES // max(1, self.widest) - 1))

    def of(self, descriptor: Descriptor) -> MessageType:
        kind = self._known.get(descriptor)
        if kind is None:
            is_any = self.as_dicts and descriptor.full_name == "google.protobuf.Any"
            self.has_any |= is_any
            kind = self._known[descriptor] = MessageType(
                descriptor, places=len(descriptor.fields), is_any=is_any
            )
            for each in descriptor.fields:
                self._add(kind, each, in_entry=descriptor.GetOptions().map_entry)
        return kind

    def extension(self, kind: MessageType, tag: int) -> FieldCost | None:
        """Return an extension field, or None if the tag is not a known extension."""
        if not self.as_dicts or kind.descriptor is None or not kind.descriptor.is_extendable:
            return None
        try:
            found = kind.descriptor.file.pool.FindExtensionByNumber(kind.descriptor, tag >> 3)
        except KeyError:
            return None
        self._add(kind, found, in_entry=False)
        return kind.fields.get(tag)

    def any_of(self, type_url: str) -> MessageType | None:
        """Return the type in an `Any`, or None if unknown, so that it is not unpacked."""
        try:
            return self.of(
                symbol_database.Default().pool.FindMessageTypeByName(type_url.split("/")[-1])
            )
        except KeyError:
            return None

    def _add(self, kind: MessageType, each: FieldDescriptor, in_entry: bool) -> None:
        number, wide = each.number << 3, _WIDE.get(each.type, WireType.NUMBER)
        bit = 1 << len(kind.fields)
        within = self.of(each.message_type) if each.message_type else None
        first = 2 if self.as_dicts else 0
        if not each.is_repeated:
            # The name and the value. In a map entry, the map's field counts them.
            values = (0 if in_entry else 2) if self.as_dicts else 1
            kind.fields[number | wide] = FieldCost(
                bit, values, kind=within, merges=within is not None
            )
            return
        is_map = self.as_dicts and within and each.message_type.GetOptions().map_entry
        kind.fields[number | wide] = FieldCost(bit, 2 if is_map else 1, first, within)
        if wide not in (WireType.LENGTH, WireType.GROUP):
            kind.fields[number | WireType.LENGTH] = FieldCost(bit, 0, first, packed=wide)
