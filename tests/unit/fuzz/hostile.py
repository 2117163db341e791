"""Input of strangers: random bytes, foreign formats, and good data with damage or false sizes."""

import tracemalloc
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from hypothesis import strategies as st

from kstorm.core.wire import (
    MAX_ID,
    VERSION,
    AckFrame,
    CompletionFrame,
    TupleFrame,
    encode,
    pack_ids,
)

T = TypeVar("T")

BYTES_A_BYTE: Final = 200
"""The allocation per byte of input.

An empty map has one byte, and takes 64 bytes, or 128 in a dict.
"""
BYTES_ANYWAY: Final = 1_000_000

LIES: Final = (
    b"\xdd\xff\xff\xff\xff",  # an array of 2^32 - 1 elements
    b"\xdc\xff\xff",
    b"\xdf\xff\xff\xff\xff",  # a map
    b"\xdb\xff\xff\xff\xff",  # a text
    b"\xc6\xff\xff\xff\xff",  # bytes
    b"\xc9\xff\xff\xff\xff\x01",  # an extension
    b"\xc1",  # never used
    b"\x91" * 3000,  # nesting
    b"\x81\x01" * 3000,
    b"\x82\x01\x01\x01\x02",  # a repeated key
    b"\x81\x80\x01",  # an invalid key
    b"\xa2\xff\xfe",  # invalid UTF-8
    b"\xcf" + b"\xff" * 8,  # 2^64 - 1
    b"\xd3\x80" + bytes(7),  # -2^63
    b"\xcb\x7f\xf8" + bytes(6),  # not a number
    b"\xc7\x0c\xff" + b"\xff" * 12,  # an invalid time
    b"\xc0",
)

ids = st.sampled_from([0, 1, 2, MAX_ID]) | st.integers(0, MAX_ID)
numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 65_536, 2**31, 2**63, 2**64 - 1]) | st.integers(
    0, 10
)
names = st.sampled_from(["words", "bolt", "sink", "default", "pairs", "__acker", ""]) | st.text(
    max_size=5
)
columns_of_ids = st.lists(ids, max_size=4).map(pack_ids) | st.binary(max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
anchors = st.dictionaries(numbers, st.dictionaries(numbers, numbers, max_size=2), max_size=2)


@st.composite
def tuple_frames(draw: st.DrawFn) -> bytes:
    """Draws frames whose parts may be wrong, and often match each other."""
    count = draw(st.integers(0, 3))
    column = st.lists(ids, min_size=count, max_size=count).map(pack_ids)
    roots = draw(st.just(b"") | column | columns_of_ids)
    return encode(
        TupleFrame(
            draw(st.just(VERSION) | numbers),
            draw(names),
            draw(numbers),
            draw(names),
            draw(st.just(count) | numbers),
            roots,
            draw(column | columns_of_ids) if roots else b"",
            draw(st.just({}) | anchors),
            draw(
                st.lists(
                    st.lists(values, min_size=count, max_size=count) | st.lists(values, max_size=3),
                    max_size=3,
                )
            ),
        )
    )


_version = st.just(VERSION) | numbers
ack_frames = st.builds(AckFrame, _version, numbers, *[columns_of_ids] * 6).map(encode)
completion_frames = st.builds(CompletionFrame, _version, numbers, *[columns_of_ids] * 3).map(encode)


@st.composite
def damaged(draw: st.DrawFn, good: st.SearchStrategy[bytes]) -> bytes:
    """Draws good bytes with a changed byte, a missing piece, a false size, or a foreign end."""
    data = draw(good)
    at = draw(st.integers(0, len(data)))
    match draw(st.integers(0, 4)):
        case 0:
            return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + draw(st.sampled_from(LIES)) + data[at + draw(st.integers(0, 1)) :]
        case 3:
            other = draw(good)
            return data[:at] + other[draw(st.integers(0, len(other))) :]
        case _:
            return data + data


def anything(good: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draws any input in place of `good`."""
    return (
        good
        | damaged(good)
        | st.binary(max_size=60)
        | values.map(msgspec.msgpack.encode)
        | st.sampled_from(LIES)
    )


def bounded(data: bytes, call: Callable[[bytes], T]) -> T:
    """Calls the decoder, and fails if it allocates out of proportion to the data."""
    tracemalloc.start()
    try:
        return call(data)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= BYTES_A_BYTE * len(data) + BYTES_ANYWAY, (
            f"{len(data)} bytes made us allocate {peak}"
        )
