"""Measures how much a Protobuf message contains, before any of it is decoded.

Decoded, a message takes more memory than its bytes: a nested message may be two bytes, but takes
memory for each field of its type. A single record must not crash the executor again and again. So
the bytes are scanned first, unless they are too few to contain much. Unknown fields are skipped,
since the decoder keeps them as bytes. The spouts use another count (`kstorm.registry`), because
they also decode the contents of an `Any`. That code needs confluent-kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_VALUES = 400_000
"""The most values in a message, including nested ones."""
MOST_PLACES = 4_000_000
"""The most fields in the types of all messages in it, present or not."""

_NUMBER, _EIGHT, _LENGTH, _GROUP, _GROUP_END, _FOUR = range(6)
"""Wire types, the last three bits of a tag. They determine how to skip the value after the tag."""
_WIRE: Mapping[int, int] = {
    **dict.fromkeys(
        (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64),
        _EIGHT,
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32),
        _FOUR,
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE),
        _LENGTH,
    ),
    FieldDescriptor.TYPE_GROUP: _GROUP,
}
_WIDTHS = {_EIGHT: 8, _FOUR: 4}
_LONGEST_NUMBER = 10
_MOST_GROUPS = 100
_CONTINUED = bytes(range(128, 256))
"""The bytes of a number, except for its last."""


class TooLargeError(Exception):
    """A message that contains too much. The text is the reason."""


class DamagedError(Exception):
    """Bytes that are not a message."""


@dataclass(slots=True, eq=False)
class _Kind:
    """A message type."""

    places: int
    within: dict[int, _Kind] = field(default_factory=dict)
    """Nested messages by tag."""
    packed: dict[int, int] = field(default_factory=dict)
    """The wire type of the elements of packed numbers, by tag."""
    tags: set[int] = field(default_factory=set)
    """The tags of all fields."""


class MessageExtent:
    """Checks messages of one type, which is not recursive."""

    def __init__(self, descriptor: Any) -> None:
        self._known: dict[str, _Kind] = {}
        self._root = self._kind(descriptor)
        widest = max(1, *(kind.places for kind in self._known.values()))
        self._harmless = min(MOST_VALUES, 2 * (MOST_PLACES // widest - 1))
        """Messages of up to this size are harmless: a message takes two bytes, a value one."""

    def check(self, data: bytes) -> None:
        """Raise TooLargeError, or DamagedError for bytes that are not a message."""
        if len(data) <= self._harmless:
            return
        try:
            _Walk(data).message(self._root, 0, len(data), None)
        except IndexError:
            raise DamagedError from None

    def _kind(self, descriptor: Any) -> _Kind:
        kind = self._known.get(descriptor.full_name)
        if kind is None:
            kind = self._known[descriptor.full_name] = _Kind(len(descriptor.fields))
            for each in descriptor.fields:
                wire = _WIRE.get(each.type, _NUMBER)
                tag = each.number << 3 | wire
                kind.tags.add(tag)
                if each.message_type is not None:
                    kind.within[tag] = self._kind(each.message_type)
                elif each.is_repeated and wire != _LENGTH:
                    kind.packed[each.number << 3 | _LENGTH] = wire
        return kind


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._values = self._places = 0

    def message(self, kind: _Kind, at: int, end: int, group: int | None) -> int:
        """Return the end of the message that starts at `at`: `end`, or after a group's end tag."""
        self._places += kind.places
        if self._places > MOST_PLACES:
            raise TooLargeError(
                f"its messages have more than {MOST_PLACES:,} fields, present or not"
            )
        while at < end:
            tag, at = self._number(at)
            if tag & 7 == _GROUP_END:
                if tag != group:
                    raise DamagedError
                return at
            if tag in kind.tags:
                self._add(1)
            within = kind.within.get(tag)
            if within is not None and tag & 7 == _GROUP:
                at = self.message(within, at, end, tag + 1)
                continue
            start, stop = self._span(tag, at, end)
            if within is not None:
                self.message(within, start, stop, None)
            elif tag in kind.packed:
                self._add(self._elements(kind.packed[tag], start, stop))
            at = stop
        if group is not None:
            raise DamagedError
        return at

    def _span(self, tag: int, at: int, end: int) -> tuple[int, int]:
        """Return the start and end of the value after a tag."""
        wire = tag & 7
        if wire == _NUMBER:
            stop = self._number(at)[1]
        elif wire == _LENGTH:
            length, at = self._number(at)
            stop = at + length
        elif wire == _GROUP:
            stop = self._behind_group(tag + 1, at, end)
        elif wire in _WIDTHS:
            stop = at + _WIDTHS[wire]
        else:
            raise DamagedError
        if stop > end:
            raise DamagedError
        return at, stop

    def _behind_group(self, ends: int, at: int, end: int) -> int:
        """Return the end of an unknown group."""
        open_ = [ends]
        while open_:
            if at >= end or len(open_) > _MOST_GROUPS:
                raise DamagedError
            tag, at = self._number(at)
            if tag & 7 == _GROUP:
                open_.append(tag + 1)
            elif tag & 7 != _GROUP_END:
                at = self._span(tag, at, end)[1]
            elif open_.pop() != tag:
                raise DamagedError
        return at

    def _elements(self, wire: int, start: int, stop: int) -> int:
        if wire in _WIDTHS:
            return (stop - start) // _WIDTHS[wire]
        # Each number ends with exactly one byte that is not in `_CONTINUED`.
        return len(self._data[start:stop].translate(None, _CONTINUED))

    def _add(self, values: int) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise TooLargeError(f"it has more than {MOST_VALUES:,} values")

    def _number(self, at: int) -> tuple[int, int]:
        """Return a number and its end."""
        found = 0
        for shift in range(0, 7 * _LONGEST_NUMBER, 7):
            byte = self._data[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 128:
                return found, at
        raise DamagedError
