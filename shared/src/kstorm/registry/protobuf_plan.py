"""What each field of a Protobuf message adds to it, by the tag that is before it; found once for a class."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from google.protobuf import symbol_database
from google.protobuf.descriptor import Descriptor, FieldDescriptor


class Wire(IntEnum):
    """How the bytes behind a tag are stepped over: the tag's last three bits."""

    NUMBER = 0
    """A number of as many bytes as it needs."""
    EIGHT = 1
    LENGTH = 2
    """By the length that comes first: texts, messages, numbers side by side."""
    GROUP = 3
    """Field by field, until the tag that ends it."""
    GROUP_END = 4
    FOUR = 5


MOST_VALUES_A_BYTE: Final = 2
"""At most: a map's entry takes two bytes, and is a key and a value; the map itself and its name come with the first."""

_WIDE: Final = {
    FieldDescriptor.TYPE_DOUBLE: Wire.EIGHT,
    FieldDescriptor.TYPE_FIXED64: Wire.EIGHT,
    FieldDescriptor.TYPE_SFIXED64: Wire.EIGHT,
    FieldDescriptor.TYPE_FLOAT: Wire.FOUR,
    FieldDescriptor.TYPE_FIXED32: Wire.FOUR,
    FieldDescriptor.TYPE_SFIXED32: Wire.FOUR,
    FieldDescriptor.TYPE_STRING: Wire.LENGTH,
    FieldDescriptor.TYPE_BYTES: Wire.LENGTH,
    FieldDescriptor.TYPE_MESSAGE: Wire.LENGTH,
    FieldDescriptor.TYPE_GROUP: Wire.GROUP,
}


@dataclass(slots=True, eq=False)
class Kind:
    """A type of messages."""

    descriptor: Descriptor | None
    fields: "dict[int, Field]" = field(default_factory=dict)
    """By their tags."""
    places: int = 0
    """How many fields it has: memory is taken for each, whether it is there or not."""
    is_any: bool = False


UNKNOWN: Final = Kind(None)
"""Of a group that the type does not have."""


@dataclass(slots=True, frozen=True, eq=False)
class Field:
    """What comes with each occurrence of a field."""

    bit: int
    """A number of its own in its message, one bit."""
    values: int
    """How many values an occurrence adds, but for what is in it."""
    first: int = 0
    """How many the first one adds to that: the field's name, and the list or dict."""
    kind: Kind | None = None
    """Of messages within."""
    packed: Wire | None = None
    """How the elements that lie side by side in an occurrence are stepped over."""
    merges: bool = False
    """Whether a second occurrence is merged into the first."""


class Kinds:
    """The types that may be met in messages of one class, each found when it is met."""

    def __init__(self, root: Descriptor) -> None:
        self._known: dict[Descriptor, Kind] = {}
        self.has_any = False
        """Whether a message may hold an `Any`, of whatever type."""
        self.root = self.of(root)
        self.widest = max(kind.places for kind in self._known.values())
        """The most fields of any type that may be met; without what is in an `Any`, or an extension."""
        self.is_open = self.has_any or any(each.is_extendable for each in self._known)
        """Whether there may be other types than these."""

    def of(self, descriptor: Descriptor) -> Kind:
        """The plan of a type."""
        kind = self._known.get(descriptor)
        if kind is None:
            is_any = descriptor.full_name == "google.protobuf.Any"
            self.has_any |= is_any
            kind = self._known[descriptor] = Kind(
                descriptor, places=len(descriptor.fields), is_any=is_any
            )
            for each in descriptor.fields:
                self._add(kind, each, in_entry=descriptor.GetOptions().map_entry)
        return kind

    def extension(self, kind: Kind, tag: int) -> Field | None:
        """A field that the type does not have itself, but somebody has added."""
        if kind.descriptor is None or not kind.descriptor.is_extendable:
            return None
        try:
            found = kind.descriptor.file.pool.FindExtensionByNumber(kind.descriptor, tag >> 3)
        except KeyError:
            return None
        self._add(kind, found, in_entry=False)
        return kind.fields.get(tag)

    def any_of(self, type_url: str) -> Kind | None:
        """The type of what an `Any` holds; None if it is not known, so that nobody unpacks it."""
        try:
            return self.of(
                symbol_database.Default().pool.FindMessageTypeByName(type_url.split("/")[-1])
            )
        except KeyError:
            return None

    def _add(self, kind: Kind, each: FieldDescriptor, in_entry: bool) -> None:
        number, wide = each.number << 3, _WIDE.get(each.type, Wire.NUMBER)
        bit = 1 << len(kind.fields)
        within = self.of(each.message_type) if each.message_type else None
        if not each.is_repeated:  # a name and a value; those of an entry count with it
            kind.fields[number | wide] = Field(
                bit, 0 if in_entry else 2, kind=within, merges=within is not None
            )
            return
        values = 2 if within and each.message_type.GetOptions().map_entry else 1
        kind.fields[number | wide] = Field(bit, values, 2, within)
        if wide not in (Wire.LENGTH, Wire.GROUP):
            kind.fields[number | Wire.LENGTH] = Field(bit, 0, 2, packed=wide)
