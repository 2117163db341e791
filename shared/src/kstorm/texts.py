"""Records that are JSON, and text that can be written into them."""

from typing import Final, TypeVar

import msgspec

from kstorm.errors import FrameError
from kstorm.printable import printable

R = TypeVar("R")

_LONGEST: Final = 2000


def decode_json(data: bytes, kind: type[R], what: str) -> R:
    """Reads a record back; raises `FrameError` if it is no such thing. `what` says what that is: `no dead letter`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"{len(data)} bytes that are {what}: {error}") from None


def encodable(text: str) -> str:
    """Without halves of characters, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace").decode()


def readable(text: str) -> str:
    """What anybody may have written, of bounded length: cut to 2000 characters."""
    return encodable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def graphviz(text: str) -> str:
    """As Graphviz reads it, in quotes: lines stay lines, and a terminal obeys none of it."""
    shown = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{shown}"'
