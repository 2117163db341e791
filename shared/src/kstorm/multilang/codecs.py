"""Messages of the multilang protocol as bytes: Storm's JSON, and MessagePack as pystorm has it."""

import os
import re
from collections.abc import Iterator
from typing import IO, Any, Final, Protocol

import msgspec

from kstorm.core.msgpack_walk import skip_values
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
                at, left, _ = skip_values(buffer, at, left)
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


CODECS: Final[dict[str, Codec]] = {"json": JsonCodec(), "msgpack": MsgpackCodec()}
