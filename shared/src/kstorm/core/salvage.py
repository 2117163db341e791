"""What can be had of a frame of tuples when a value in it does not decode.

MessagePack encodes more than it reads back: a map whose key is a map (a frozen dataclass as the key of a dict), a time out
of range in an extension. And Python limits the depth of all calls together, so what one process encoded some 980 deep may be
too deep for another that is within more calls when it reads it. The frame is a sound array of values all the same, so it is
read value by value, and only the tuples with a value that does not decode are lost.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from kstorm.errors import FrameError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises."""


class Shell(msgspec.Struct, array_like=True):
    """A `TupleFrame` whose values are left as they came."""

    version: int
    component: str
    task: int
    stream: str
    count: int
    roots: bytes
    edges: bytes
    more: dict[int, dict[int, int]]
    columns: list[list[msgspec.Raw]]


class ByValue(msgspec.Struct):
    """A frame that was read value by value."""

    shell: Shell
    columns: list[list[Any]]
    """The values, None in place of those that do not decode."""
    bad: dict[int, str]
    """The positions of the tuples with such a value → what was wrong with one of them."""


_decode_shell = msgspec.msgpack.Decoder(Shell).decode
_decode_value = msgspec.msgpack.Decoder().decode


def read_by_value(data: bytes) -> ByValue:
    """Reads what a decoder has refused. Raises what a decoder raises, or `FrameError`, if it is no frame of tuples."""
    with _deeper():
        shell = _decode_shell(data)
        if any(len(column) != shell.count for column in shell.columns):
            raise FrameError(
                f"columns of {sorted({*map(len, shell.columns)})} values for {shell.count} tuples"
            )
        bad: dict[int, str] = {}
        return ByValue(shell, [_column(raw, bad) for raw in shell.columns], bad)


def _column(raw: list[msgspec.Raw], bad: dict[int, str]) -> list[Any]:
    values: list[Any] = []
    for position, value in enumerate(raw):
        try:
            values.append(_decode_value(value))
        except UNREADABLE as error:
            values.append(None)
            bad[position] = str(error)
    return values


@contextmanager
def _deeper() -> Iterator[None]:
    """Allows twice the depth, for a moment."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
