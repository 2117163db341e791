"""Counts the values of a Protobuf message before it is decoded.

Decoded data takes more memory than its bytes. A nested message may be two bytes, but takes memory
for each field of its type, set or not. A single message must not exhaust a process again and again.
So the bytes are scanned according to the message type, without creating objects.
"""

from typing import Final

from kstorm.formats.protobuf_plan import (
    MOST_PLACES,
    UNKNOWN,
    FieldCost,
    MessageType,
    MessageTypes,
    WireType,
)
from kstorm.formats.varint import DamagedError, varint_at

MOST_LEVELS: Final = 200
"""Maximum nesting of messages. The decoder's limit is 100, but starts again in each `Any`."""

_PIECE: Final = 1 << 16
_CONTINUED: Final = bytes(range(128, 256))
"""Bytes of a varint, except the last one."""
_STEP: Final = 7
"""Mask of a tag's bits that hold the wire type."""


class TooLargeError(ValueError):
    """A message that contains too much."""


def count(kinds: MessageTypes, data: bytes, at: int, most: int) -> int:
    """Count the values from `at`, including nested ones and field names.

    Raises `TooLargeError` as soon as there are more than `most`, and `DamagedError` if the message
    is nested too deeply or invalid.
    """
    walk = _MessageScan(kinds, data, most)
    try:
        walk.message(kinds.root, at, len(data), 0, 0)
    except IndexError:
        raise _damaged() from None
    return walk.values


class _MessageScan:
    def __init__(self, kinds: MessageTypes, data: bytes, most: int) -> None:
        self.values = 1 if kinds.as_dicts else 0
        self._places = 0
        self._kinds = kinds
        self._data = data
        self._most = most

    def message(self, kind: MessageType, at: int, end: int, group: int, level: int) -> int:
        """Return the end of a message: `end`, or after the end tag of `group`, if not 0."""
        if level > MOST_LEVELS:
            raise DamagedError(f"its messages are nested more than {MOST_LEVELS} levels deep")
        self._enter(kind)
        seen, spans = 0, {}
        while at < end:
            tag, at = varint_at(self._data, at)
            if tag & _STEP == WireType.GROUP_END:
                if tag & ~_STEP != group:
                    raise _damaged()
                group = 0
                break
            field = kind.fields.get(tag) or self._kinds.extension(kind, tag)
            if field:
                self._occurs(field, seen)
                seen |= field.bit
            at, stop = self._span(field, tag, at, end, level)
            if field and tag & _STEP == WireType.LENGTH:
                self._within(field, at, stop, level)
            if kind.is_any:
                spans[tag] = at, stop
            at = stop
        if group:
            raise _damaged()
        if kind.is_any:
            self._unpack(spans, level)
        return at

    def _enter(self, kind: MessageType) -> None:
        self._places += kind.places
        if self._places > MOST_PLACES:
            raise TooLargeError(
                f"its messages have more than {MOST_PLACES:,} fields, including unset ones"
            )

    def _occurs(self, field: FieldCost, seen: int) -> None:
        first = not seen & field.bit
        if field.merges and self._kinds.has_any and not first:
            # One part may contain the type of an `Any`, and the other one its value.
            raise DamagedError(
                "it has a message in two parts, which is not allowed where an Any may occur"
            )
        self._add(field.values + (field.first if first else 0))

    def _span(
        self, field: FieldCost | None, tag: int, at: int, end: int, level: int
    ) -> tuple[int, int]:
        """Return start and end of a tag's value."""
        stop = end + 1
        match tag & _STEP:
            case WireType.NUMBER:
                stop = varint_at(self._data, at)[1]
            case WireType.EIGHT:
                stop = at + 8
            case WireType.FOUR:
                stop = at + 4
            case WireType.LENGTH:
                length, at = varint_at(self._data, at)
                stop = at + length
            case WireType.GROUP:
                inner = field.kind if field and field.kind else UNKNOWN
                stop = self.message(inner, at, end, tag & ~_STEP, level + 1)
        if stop > end:
            raise _damaged()
        return at, stop

    def _within(self, field: FieldCost, at: int, stop: int, level: int) -> None:
        if field.kind:
            self.message(field.kind, at, stop, 0, level + 1)
        elif field.packed is WireType.NUMBER:
            for piece in range(at, stop, _PIECE):
                self._add(
                    len(self._data[piece : min(piece + _PIECE, stop)].translate(None, _CONTINUED))
                )
        elif field.packed is not None:
            self._add((stop - at) // (8 if field.packed is WireType.EIGHT else 4))

    def _unpack(self, spans: dict[int, tuple[int, int]], level: int) -> None:
        """Count the contents of an `Any`, which are also converted to a dict if the type is known."""
        url, value = (spans.get(number << 3 | WireType.LENGTH, (0, 0)) for number in (1, 2))
        kind = self._kinds.any_of(self._data[slice(*url)].decode(errors="replace"))
        if kind:
            self.message(kind, *value, 0, level + 1)

    def _add(self, values: int) -> None:
        self.values += values
        if self.values > self._most:
            raise TooLargeError(f"it has more than {self._most:,} values, including nested ones")


def _damaged() -> DamagedError:
    return DamagedError("it ends too early, or is not a Protobuf message")
