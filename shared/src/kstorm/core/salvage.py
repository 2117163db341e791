"""Recovers the readable tuples of a tuple frame in which some value does not decode.

MessagePack encodes some values that it cannot decode. Examples are a map whose key is a map (a
frozen dataclass as a dict key) and an out-of-range time in an extension. Python also limits the depth of all nested
calls together. So a value encoded at a depth of about 980 may be too deep for a reader that is
itself deeper in calls. The frame is still a valid array of values. So it is read value by value,
and only tuples with an undecodable value are lost.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kstorm.errors import FrameError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that a decoder raises."""


class UndecodedColumns(Protocol):
    """The part of a frame that is read value by value."""

    count: int
    columns: list[list[msgspec.Raw]]


F = TypeVar("F", bound=UndecodedColumns)

_decode_value = msgspec.msgpack.Decoder().decode


class PartlyReadableFrame(NamedTuple, Generic[F]):
    """A frame that was decoded value by value."""

    shell: F
    """The frame with its values left undecoded."""
    columns: list[list[Any]]
    """The values, with None in place of undecodable ones."""
    bad: dict[int, str]
    """Positions of tuples with an undecodable value → one of the errors."""


def read_by_value(data: bytes, decode: Callable[[bytes], F]) -> PartlyReadableFrame[F]:
    """Decode a frame that the normal decoder has rejected. `decode` leaves its values undecoded.

    Raises the decoder's exceptions, or `FrameError`, if it is not a tuple frame.
    """
    with _deeper():
        shell = decode(data)
        if any(len(column) != shell.count for column in shell.columns):
            raise FrameError(
                f"the columns have {sorted({*map(len, shell.columns)})} values for {shell.count} "
                "tuples"
            )
        bad: dict[int, str] = {}
        return PartlyReadableFrame(shell, [_column(raw, bad) for raw in shell.columns], bad)


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
    """Double Python's recursion limit temporarily."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
