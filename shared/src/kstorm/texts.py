"""Decoding of JSON records, and cleaning of text for them."""

from typing import Final, TypeVar

import msgspec

from kstorm.errors import FrameError
from kstorm.printable import printable

R = TypeVar("R")

_LONGEST: Final = 2000


def decode_json(data: bytes, kind: type[R], what: str) -> R:
    """Decode a JSON record. Raises `FrameError` if it is not a `kind`.

    `what` completes that error's message, for example `a dead letter`.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"{len(data)} bytes are not {what}: {error}") from None


def encodable(text: str) -> str:
    """Escape unpaired surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def readable(text: str) -> str:
    """Return untrusted text as encodable text of at most 2000 characters."""
    return encodable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def graphviz(text: str) -> str:
    """Quote text for Graphviz.

    Line feeds are kept, and characters that control a terminal are escaped.
    """
    shown = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{shown}"'
