"""Decodes records of the ackers' topics with code of its own, since it serves to check kstorm's.

A frame is a MessagePack array. Its columns are 8-byte ids, little-endian. docs/development/architecture.md
describes the processes that write them.
"""

from __future__ import annotations

from struct import error, unpack, unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_VERSIONS = (1, 2)
_T = TypeVar("_T")
_ORIGINS = 11
"""Place of the origins in a record of the ackers' topic."""
_STEPS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class TreeOrigin(NamedTuple):
    """The source message of a tree."""

    root: int
    """Signed, as in Spark."""
    topic: str
    partition: int
    offset: int


class AckUpdate(NamedTuple):
    """The contribution of one record to one tree. Numbers are signed, as in Spark."""

    root: int
    val: int
    init: bool
    """True if the tree begins here."""
    over: bool
    """True if the tree fails here, so that it ends without being complete."""


def updates(data: bytes) -> Iterator[AckUpdate]:
    """Decode a record of `<topology>.__acker`, in the order in which an acker applies it.

    Raises ValueError if the record is invalid.
    """
    version, _, init_roots, init_vals, roots, vals, failed, *_ = _array(data, 7, 9)
    _check(version)
    for root, val in zip(_ids(init_roots), _ids(init_vals), strict=True):
        yield AckUpdate(root, val, True, False)
    for root, val in zip(_ids(roots), _ids(vals), strict=True):
        yield AckUpdate(root, val, False, False)
    for root in _ids(failed):
        yield AckUpdate(root, 0, False, True)


def origins(data: bytes) -> Iterator[TreeOrigin]:
    """Decode which message each tree that begins in a record of `<topology>.__acker` belongs to.

    Trees of an unknown message are left out. Raises ValueError if the record is invalid.
    """
    version, _, init_roots, *rest = _array(data, 7, _ORIGINS + 1)
    _check(version)
    runs = rest[_ORIGINS - 3] if len(rest) > _ORIGINS - 3 else []
    roots = iter(_ids(init_roots))
    for topic, partition, _, count, first, *steps in runs:
        offset = first
        for step in (0, *_steps(count - 1, steps[0] if steps else b"")):
            offset += step
            root = next(roots, None)
            if root is None:
                raise ValueError("more origins than trees")
            if topic:
                yield TreeOrigin(root, topic.decode(), partition, offset)


def _steps(count: int, steps: bytes) -> tuple[int, ...]:
    """Return the distances between offsets, all of which are encoded in the same width."""
    if not steps:
        return (1,) * count
    width = len(steps) // count if count else 0
    if width not in _STEPS or len(steps) != width * count:
        raise ValueError(f"{len(steps)} bytes for {count} steps")
    return unpack(f"<{count}{_STEPS[width]}", steps)


def completed(data: bytes) -> tuple[int, ...]:
    """Return the roots that a record of `<topology>.<spout>.__completions` reports as complete.

    Raises ValueError if the record is invalid.
    """
    version, _, acked, *_ = _array(data, 3, 3)
    _check(version)
    return _ids(acked)


def read_valid(decode: Callable[[bytes], Iterable[_T]], value: bytes | None) -> list[_T]:
    """Decode a record's value. Like the ackers, ignore one that is not a valid frame."""
    try:
        return list(decode(bytes(value or b"")))
    except (ValueError, error):
        return []


def _check(version: Any) -> None:
    if version not in _VERSIONS:
        raise ValueError(f"a frame of version {version}; this release audits 1 and 2")


def _ids(column: Any) -> tuple[int, ...]:
    if not isinstance(column, bytes):
        raise ValueError(f"a column of type {type(column).__name__}")
    if len(column) % 8:
        raise ValueError(f"a column of {len(column)} bytes")
    return unpack(f"<{len(column) // 8}q", column)


def _array(data: bytes, least: int, most: int) -> list[Any]:
    """Decode the first elements of an array: numbers, bytes, texts, booleans, null, or arrays.

    The audit needs no more, and the rest may have any type: later releases append elements.
    """
    count, place = _count(data, 0)
    if count < least:
        raise ValueError(f"an array of {count}")
    found: list[Any] = []
    for _ in range(min(count, most)):
        element, place = _element(data, place)
        found.append(element)
    return found


def _count(data: bytes, place: int) -> tuple[int, int]:
    """Return the number of elements of the array at `place`, and where the first one is."""
    match data[place : place + 1]:
        case b"\xdc":
            return unpack_from(">H", data, place + 1)[0], place + 3
        case b"\xdd":
            return unpack_from(">I", data, place + 1)[0], place + 5
        case first if first and 0x90 <= first[0] <= 0x9F:
            return first[0] & 0x0F, place + 1
    raise ValueError("no array")


_NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
_SIZES = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xD9: "B", 0xDA: "H", 0xDB: "I"}
_ARRAYS = {*range(0x90, 0xA0), 0xDC, 0xDD}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _element(data: bytes, place: int) -> tuple[Any, int]:
    if place >= len(data):
        raise ValueError("it ends too early")
    first, place = data[place], place + 1
    if first in _ARRAYS:
        count, place = _count(data, place - 1)
        elements = []
        for _ in range(count):
            element, place = _element(data, place)
            elements.append(element)
        return elements, place
    if first <= 0x7F:
        return first, place
    if first >= 0xE0:
        return first - 0x100, place
    if first in _CONSTANTS:
        return _CONSTANTS[first], place
    if first in _NUMBERS:
        (number,) = unpack_from(">" + _NUMBERS[first], data, place)
        return number, place + {"b": 1, "h": 2, "i": 4, "q": 8}[_NUMBERS[first].lower()]
    if first in _SIZES:
        (size,) = unpack_from(">" + _SIZES[first], data, place)
        place += {"B": 1, "H": 2, "I": 4}[_SIZES[first]]
    elif 0xA0 <= first <= 0xBF:
        size = first & 0x1F
    else:
        raise ValueError(f"an element of the kind {first:#x}")
    if place + size > len(data):
        raise ValueError("it ends too early")
    return data[place : place + size], place + size
