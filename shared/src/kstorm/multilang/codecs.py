"""Messages of the multilang protocol as bytes: Storm's JSON, and MessagePack as pystorm has it."""

import os
import re
from collections.abc import Iterator
from typing import IO, Any, Final, Protocol

import msgspec

from kstorm.errors import KstormError

MOST_BYTES: Final = 64 * 1024 * 1024
"""Longest message. Otherwise a program that writes garbage would fill the memory."""
_CHUNK: Final = 1 << 16
_END_LINE: Final = re.compile(rb"^end\r?\n", re.MULTILINE)


class GarbageError(KstormError):
    """A program wrote something that is not a message."""


class Codec(Protocol):
    """Encodes messages, and reads them from a program's output."""

    def encode(self, message: Any) -> bytes: ...

    def read(self, stream: IO[bytes]) -> Iterator[list[Any]]:
        """Yield the messages of each chunk until the end. Raises `GarbageError`."""
        ...


class JsonCodec:
    """JSON, followed by a line `end`."""

    def encode(self, message: Any) -> bytes:
        return msgspec.json.encode(message) + b"\nend\n"

    def read(self, stream: IO[bytes]) -> Iterator[list[Any]]:
        buffer = bytearray()
        searched = 0  # so that a long message is searched once, not again with each chunk
        while chunk := os.read(stream.fileno(), _CHUNK):
            buffer += chunk
            messages, begin, error = _json_messages(buffer, searched)
            if messages:
                yield messages
            if error is not None:
                raise error
            del buffer[:begin]
            if len(buffer) > MOST_BYTES:
                raise GarbageError(
                    f"wrote over {MOST_BYTES} bytes without a line 'end', beginning with "
                    f"{bytes(buffer[:80])!r}"
                )
            searched = max(0, len(buffer) - len(b"end\r"))
        messages, _, error = _json_messages(buffer + b"\n", searched)
        if messages:
            yield messages
        if error is not None:
            raise error


def _json_messages(buffer: bytearray, searched: int) -> tuple[list[Any], int, GarbageError | None]:
    """Return the complete messages, the position after them, and the error that stopped this."""
    messages: list[Any] = []
    begin = 0
    for end in _END_LINE.finditer(buffer, searched):
        text = bytes(buffer[begin : end.start()])
        begin = end.end()
        try:
            if text and not text.isspace():
                messages.append(msgspec.json.decode(text))
        except msgspec.DecodeError as error:
            reason = GarbageError(
                f"wrote {text[:200]!r}, which is not JSON ({error}); it may only write "
                "messages to its standard output, so let it print to standard error"
            )
            return messages, begin, reason
    return messages, begin, None


class MsgpackCodec:
    """MessagePack objects one after another."""

    def encode(self, message: Any) -> bytes:
        return msgspec.msgpack.encode(message)

    def read(self, stream: IO[bytes]) -> Iterator[list[Any]]:
        buffer = bytearray()
        at, left = 0, 1  # so that a long message is scanned once, not again with each chunk
        while chunk := os.read(stream.fileno(), _CHUNK):
            buffer += chunk
            begin, messages, reason = 0, [], None
            while reason is None:
                at, left = scan_object(buffer, at, left)
                if left or at > len(buffer):
                    break
                text = bytes(buffer[begin:at])
                try:
                    messages.append(msgspec.msgpack.decode(text))
                except msgspec.DecodeError as error:
                    reason = (
                        f"wrote {text[:200]!r}, which is not a message in MessagePack ({error})"
                    )
                begin, left = at, 1
            if messages:
                yield messages
            if reason is not None:
                raise GarbageError(reason)
            del buffer[:begin]
            at -= begin
            if len(buffer) > MOST_BYTES:
                raise GarbageError(f"wrote {len(buffer)} bytes without the end of a message")


_FIXED: Final = {
    0xC0: 0,
    0xC1: 0,
    0xC2: 0,
    0xC3: 0,
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xD4: 2,
    0xD5: 3,
    0xD6: 5,
    0xD7: 9,
    0xD8: 17,
}
"""Number of bytes after the first one, of types with a fixed length."""
_SIZED: Final = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
}
"""Number of bytes of the length, and of further ones, of binary values, extensions and text."""
_CONTAINERS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Number of bytes of the count, and of objects per entry, of arrays and maps."""


def scan_object(buffer: bytearray, at: int, left: int) -> tuple[int, int]:
    """Skip `left` MessagePack objects from `at` on, as far as the buffer goes.

    Returns the next position and the number of objects that are left. The position is behind the
    buffer if the last value is incomplete.
    """
    size = len(buffer)
    while left and at < size:
        first = buffer[at]
        end, inner = at + 1, 0
        if 0x80 <= first <= 0x8F:
            inner = 2 * (first & 0x0F)
        elif 0x90 <= first <= 0x9F:
            inner = first & 0x0F
        elif 0xA0 <= first <= 0xBF:
            end += first & 0x1F
        elif first in _FIXED:
            end += _FIXED[first]
        elif 0xC0 <= first <= 0xDF:
            length, more = _SIZED.get(first) or _CONTAINERS[first]
            if end + length > size:
                break
            count = int.from_bytes(buffer[end : end + length])
            end += length
            if first in _CONTAINERS:
                inner = count * more
            else:
                end += count + more
        at, left = end, left - 1 + inner
    return at, left


CODECS: Final[dict[str, Codec]] = {"json": JsonCodec(), "msgpack": MsgpackCodec()}
