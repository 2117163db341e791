"""Messages as bytes: what is written can be read, in any pieces, and garbage is refused."""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.msgpack_walk import skip_values
from kstorm.multilang import codecs
from kstorm.multilang.codecs import CODECS, GarbageError

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
    max_leaves=30,
)


def end_of_object(buffer: bytearray, begin: int) -> int:
    """Return the position after the object at `begin`, or -1 if it is incomplete."""
    at, left, _ = skip_values(buffer, begin, 1)
    return -1 if left or at > len(buffer) else at


@given(VALUES, st.data())
def test_scan_continues_where_the_buffer_ended(value: Any, data: st.DataObject) -> None:
    """A long message is scanned once, although it arrives in many chunks."""
    encoded = msgspec.msgpack.encode(value)
    at, left = 0, 1
    for cut in sorted(data.draw(st.lists(st.integers(0, len(encoded))))):
        before, (at, left, _) = at, skip_values(bytearray(encoded[:cut]), at, left)
        assert at >= before
    assert skip_values(bytearray(encoded), at, left)[:2] == (len(encoded), 0)


@given(VALUES)
def test_the_end_of_an_object_is_found(value: Any) -> None:
    encoded = msgspec.msgpack.encode(value)
    assert end_of_object(bytearray(b"\xc0" + encoded + b"\xc3"), 1) == 1 + len(encoded)
    for cut in {0, 1, len(encoded) // 2, len(encoded) - 1} - {len(encoded)}:
        assert end_of_object(bytearray(encoded[:cut]), 0) == -1


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_the_end_of_long_objects_is_found(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * size, {str(n): n for n in range(size)}):
        encoded = msgspec.msgpack.encode(value)
        assert end_of_object(bytearray(encoded), 0) == len(encoded)
    extension = msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"x" * size))
    assert end_of_object(bytearray(extension), 0) == len(extension)


def read_all(codec: str, written: bytes) -> list[Any]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        os.write(writing, written)
        os.close(writing)
        return [each for messages in CODECS[codec].read(stream) for each in messages]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_messages_are_read_as_written(codec: str) -> None:
    messages = [{"command": "emit", "tuple": ["ä\nend\n", 1.5, None]}, [1, 2], {"pid": 3}]
    written = b"".join(map(CODECS[codec].encode, messages))
    assert read_all(codec, written) == messages


def test_json_may_have_several_lines_and_blank_ones() -> None:
    assert read_all("json", b'{"pid":\n1}\nend\n\n\nend\n[1]\r\nend\r\n') == [{"pid": 1}, [1]]


@pytest.mark.parametrize("chunk", range(1, 12))
def test_messages_may_arrive_in_any_pieces(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line `end` may be cut. Longer lines with this word do not end a message."""
    monkeypatch.setattr(codecs, "_CHUNK", chunk)
    written = b'{"a":\n"end"}\nend\r\n["the end"\n,\n"end"\n]\nend\nend\n[2]\nend'
    assert read_all("json", written) == [{"a": "end"}, ["the end", "end"], [2]]
    packed = b"".join(map(CODECS["msgpack"].encode, ([1], {"a": "x" * 40}, None)))
    assert read_all("msgpack", packed) == [[1], {"a": "x" * 40}, None]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_messages_before_garbage_are_read(codec: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        os.write(writing, CODECS[codec].encode([1]) + b"\xc1\nend\n")
        os.close(writing)
        messages = CODECS[codec].read(stream)
        assert next(messages) == [[1]]
        with pytest.raises(GarbageError):
            next(messages)


@pytest.mark.parametrize(("codec", "garbage"), [("json", b"hello\nend\n"), ("msgpack", b"\xc1")])
def test_garbage_is_refused(codec: str, garbage: bytes) -> None:
    with pytest.raises(GarbageError, match="which is not"):
        read_all(codec, garbage)


def test_endless_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstorm.multilang.codecs.MOST_BYTES", 1000)
    with pytest.raises(GarbageError, match="1000 bytes without"):
        read_all("json", b"x" * 2000)
    with pytest.raises(GarbageError, match="without the end"):
        read_all("msgpack", b"\xdb\x00\x01\x00\x00" + b"x" * 2000)
