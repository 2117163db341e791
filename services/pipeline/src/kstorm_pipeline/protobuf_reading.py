"""Decodes a Protobuf record on an executor, from the bytes after the schema id to a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from kstorm.formats.protobuf_plan import MessageTypes
from kstorm.formats.protobuf_scan import TooLargeError, count
from kstorm.formats.varint import DamagedError
from kstorm_pipeline.protobuf_columns import MessageRows, UnfitError, rows_of
from kstorm_pipeline.protobuf_files import open_message

if TYPE_CHECKING:
    from collections.abc import Mapping

UNEXPECTED = "the value does not match that schema"
MOST_VALUES = 400_000
"""The most values in a message, including nested ones."""
_MOST_INDEXES = 100
"""The most nested messages in a record's message index."""


@dataclass(frozen=True, slots=True)
class ProtobufReading:
    """The message type to read, as it is sent to executors."""

    files: bytes
    """A serialized set of descriptors."""
    message: str
    """The full name of the message."""
    emit_defaults: bool
    cut_times: bool = False


def read_message(
    reading: ProtobufReading, written: Mapping[tuple[int, ...], str | None], payload: bytes
) -> tuple[str | None, tuple[Any, ...]]:
    """Return the reason why the payload is unreadable, or None, and the row.

    A row with a reason is meaningless. `written` has the messages of the writer's schema by
    position, each with the reason why it is unreadable, or None.
    """
    parse, rows, extent = _opened(reading)
    try:
        place, start = _place(payload)
        if place not in written:
            return UNEXPECTED, rows.empty
        reason = written[place]
        if reason is not None:
            return reason, rows.empty
        body = payload[start:]
        extent.check(body)
        return None, rows.of(parse(body))
    except (TooLargeError, UnfitError) as error:
        return str(error), rows.empty
    except (DamagedError, DecodeError, UnicodeDecodeError):
        return UNEXPECTED, rows.empty


class MessageExtent:
    """Checks messages of one type, which is not recursive, before they are decoded.

    The spouts count otherwise, because they turn a message into a dict, and unpack an `Any`.
    """

    def __init__(self, descriptor: Any) -> None:
        self._types = MessageTypes(descriptor, as_dicts=False)
        self._harmless = self._types.harmless(MOST_VALUES)

    def check(self, data: bytes) -> None:
        """Raise TooLargeError, or DamagedError for bytes that are not a message."""
        if len(data) > self._harmless:
            count(self._types, data, 0, MOST_VALUES)


@lru_cache(maxsize=16)
def _opened(reading: ProtobufReading) -> tuple[Any, MessageRows, MessageExtent]:
    """Return a message's decoder, conversion and check. They are created once per process."""
    descriptor = open_message(reading.files, reading.message)
    rows = rows_of(descriptor, emit_defaults=reading.emit_defaults, cut_times=reading.cut_times)
    return GetMessageClass(descriptor).FromString, rows, MessageExtent(descriptor)


def _place(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Parse the position of a record's message in its schema. Return it and the message's start.

    The format is a count, then that many numbers, or a single 0 for the first message.
    """
    if payload[:1] == b"\x00":
        return (0,), 1
    count, at = _zigzag(payload, 0)
    if not 0 < count <= _MOST_INDEXES:
        raise DamagedError
    place = []
    for _ in range(count):
        number, at = _zigzag(payload, at)
        place.append(number)
    return tuple(place), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 35, 7):
        byte = data[at] if at < len(data) else None
        if byte is None:
            break
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 128:
            return found >> 1 ^ -(found & 1), at
    raise DamagedError
