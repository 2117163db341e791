"""Frames survive encoding and decoding, and all other bytes are refused."""

import datetime
import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.wire import (
    MAX_ID,
    VERSION,
    AckFrame,
    CompletionFrame,
    Frame,
    TupleFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
    unpack_pairs,
)
from kstorm.errors import FrameError

KINDS: tuple[type[Any], ...] = (TupleFrame, AckFrame, CompletionFrame)

ids = st.integers(1, MAX_ID)
packed = st.lists(ids, max_size=4).map(pack_ids)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@st.composite
def tuple_frames(draw: st.DrawFn) -> TupleFrame:
    """Draws frames as an outbox makes them."""
    count = draw(st.integers(0, 5))
    fields = draw(st.integers(0, 3))
    tracked = draw(st.booleans())
    positions = st.integers(0, max(0, count - 1))
    column = st.lists(ids, min_size=count, max_size=count).map(pack_ids)
    return TupleFrame(
        VERSION,
        draw(st.text()),
        draw(st.integers(1, 65_535)),
        draw(st.text()),
        count,
        draw(column) if tracked else b"",
        draw(column) if tracked else b"",
        draw(
            st.dictionaries(
                positions, st.dictionaries(ids, ids, min_size=1, max_size=3), max_size=min(2, count)
            )
        ),
        [draw(st.lists(values, min_size=count, max_size=count)) for _ in range(fields)],
    )


ack_frames = st.builds(
    AckFrame,
    st.just(VERSION),
    st.integers(0, 65_535),
    packed,
    packed,
    packed,
    packed,
    packed,
    packed,
)
completion_frames = st.builds(
    CompletionFrame, st.just(VERSION), st.integers(0, 64), packed, packed, packed
)


@given(tuple_frames() | ack_frames | completion_frames)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    """Decoding an encoded frame gives an equal frame with equal values."""
    kind: type[Any] = type(frame)
    assert decode(kind, encode(frame)) == frame


@given(st.lists(ids))
def test_a_column_of_ids_is_eight_bytes_each(column: list[int]) -> None:
    """Packing and unpacking are inverse.

    The bytes are little-endian, as documented for other languages.
    """
    assert len(pack_ids(column)) == 8 * len(column)
    assert list(unpack_ids(pack_ids(column))) == column
    assert pack_ids([1]) == b"\x01" + bytes(7)


def decoded_or_refused(data: bytes) -> list[Frame]:
    frames = []
    for kind in KINDS:
        with suppress(FrameError):
            frames.append(decode(kind, data))
    return frames


@given(tuple_frames() | ack_frames | completion_frames, st.data())
def test_a_damaged_frame_is_a_frame_or_refused(frame: Frame, data: st.DataObject) -> None:
    """A frame with one changed, lost or doubled byte is valid or refused.

    Its columns fit its count.
    """
    good = encode(frame)
    at = data.draw(st.integers(0, len(good) - 1))
    middle = data.draw(st.binary(max_size=2))
    for read in decoded_or_refused(good[:at] + middle + good[at + 1 :]):
        if isinstance(read, TupleFrame):
            assert all(len(column) == read.count for column in read.columns)
            assert len(read.roots) == len(read.edges)
            assert len(read.roots) in (0, 8 * read.count)


def head(
    count: int = 1, roots: bytes = b"", edges: bytes = b"", more: Any = None, columns: Any = ((1,),)
) -> bytes:
    return msgspec.msgpack.encode([VERSION, "a", 1, "s", count, roots, edges, more or {}, columns])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "without a value"),
        (b"", "0 bytes are not a valid TupleFrame"),
        (b"hello", "are not a valid TupleFrame"),
        (b"\x80", "are not a valid TupleFrame"),
        (head(count=2), "column 0 has 1 values for 2 tuples"),
        (head(count=2, columns=[[1, 2], [1]]), "column 1 has 1 values for 2 tuples"),
        (head(count=-1), "claims to have -1 tuples"),
        (head(count=2**63, columns=[]), "claims to have 9223372036854775808 tuples"),
        (head(roots=bytes(7), edges=bytes(7)), "1 tuples has 7 bytes of roots"),
        (head(roots=bytes(8), edges=bytes(16)), "1 tuples has 16 bytes of edges"),
        (head(roots=bytes(8)), "roots without edges"),
        (head(edges=bytes(8)), "roots without edges"),
        (head(more={1: {5: 6}}), "a frame of 1 tuples has anchors for tuple 1"),
        (head(more={-1: {5: 6}}), "anchors for tuple -1"),
        (head(more={0: {0: 6}}), "anchors for tuple 0"),
        (head(more={0: {5: -6}}), "anchors for tuple 0"),
        (head(more={0: {5: "6"}}), "are not a valid TupleFrame"),
    ],
)
def test_frames_that_contradict_themselves(data: bytes | None, said: str) -> None:
    """Counts, widths and positions must agree. The message names the one that does not."""
    with pytest.raises(FrameError, match=said):
        decode(TupleFrame, data)


def test_frames_of_another_version() -> None:
    """The error names a later format, even if the frame could be read."""
    frames: list[Any] = [
        TupleFrame(3, "a", 1, "s", 0, b"", b"", {}, []),
        AckFrame(0, 1),
        CompletionFrame(7, 1),
    ]
    for frame in frames:
        with pytest.raises(
            FrameError,
            match=rf"{type(frame).__name__} has format version {frame.version}.* version 1",
        ):
            decode(type(frame), encode(frame))


def test_columns_of_wrong_width() -> None:
    """Ids have eight bytes. The number of pairs is that of the roots."""
    with pytest.raises(FrameError, match="a column has 9 bytes: ids have 8 bytes each"):
        unpack_ids(bytes(9))
    with pytest.raises(FrameError, match="16 bytes of roots and 8 bytes of values"):
        unpack_pairs(bytes(16), bytes(8))


@pytest.mark.parametrize(
    "lie",
    [
        b"\xdd\xff\xff\xff\xff",  # an array of 2^32 elements
        b"\x91\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",  # a map
        b"\xdb\xff\xff\xff\xff",  # a string
        b"\xc6\xff\xff\xff\xff",  # bytes
        b"\x91" * 100_000,  # nesting
    ],
)
def test_a_frame_that_claims_more_than_it_has(lie: bytes) -> None:
    """The decoder checks a frame's length before it allocates memory."""
    data = head()[:-2] + lie
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            decode(TupleFrame, data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_decoded_types_of_values() -> None:
    """MessagePack returns lists for tuples and sets, and strings for naive dates.

    Zoned dates survive.
    """
    moment = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)
    sent: list[Any] = [(1, 2), {3}, moment, datetime.date(2026, 5, 4), None, b"\x00", 2.0]
    frame = decode(TupleFrame, encode(TupleFrame(VERSION, "a", 1, "s", 7, b"", b"", {}, [sent])))
    assert frame.columns == [[[1, 2], [3], moment, "2026-05-04", None, b"\x00", 2.0]]
    assert type(frame.columns[0][6]) is float
