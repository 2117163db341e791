"""What travels on the internal topics: frames of many tuples, of many acks, of many completions.

One Kafka record is one frame, so that nothing is done per tuple that can be done per frame. MessagePack by msgspec,
each struct as an array whose first element is the format version; columns of 64-bit ids are packed little-endian bytes.
What arrives on a topic is data, never code, and anything that is not a frame of this version is refused with a
`FrameError`: the runtime puts it into the dead letters and goes on.
"""

from collections.abc import Iterable, Sequence
from struct import pack, unpack
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from kstorm.errors import FrameError

VERSION: Final = 1
MAX_ID: Final = (1 << 64) - 1


class TupleFrame(Struct, array_like=True):
    """Tuples of one stream from one task to one task."""

    version: int
    component: str
    """The emitting component."""
    task: int
    """The emitting task, topology-wide."""
    stream: str
    count: int
    """Tuples in the frame."""
    roots: bytes
    """Packed root id of each tuple, 0 where it is not tracked; empty if none is."""
    edges: bytes
    """Packed edge id of each tuple; empty if none is tracked."""
    more: dict[int, dict[int, int]]
    """Position → further `root → edge` pairs, for the multi-anchored tuples only."""
    columns: list[list[Any]]
    """The values: one list a field, each `count` long."""


class AckFrame(Struct, array_like=True):
    """News of trees for one acker task, XOR-folded per root."""

    version: int
    task: int
    """The sending task; for inits, the spout task that shall hear of completion."""
    init_roots: bytes = b""
    init_vals: bytes = b""
    """XOR of the edges of each root's first tuples."""
    roots: bytes = b""
    vals: bytes = b""
    """XOR of the acked edges and of the edges created under them."""
    failed: bytes = b""
    reset: bytes = b""
    """Roots whose timeout starts again."""


class CompletionFrame(Struct, array_like=True):
    """What became of trees, for one spout task."""

    version: int
    acker: int
    acked: bytes = b""
    failed: bytes = b""
    reset: bytes = b""


Frame = TupleFrame | AckFrame | CompletionFrame
_F = TypeVar("_F", TupleFrame, AckFrame, CompletionFrame)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (TupleFrame, AckFrame, CompletionFrame)
}


def encode(frame: Frame) -> bytes:
    """The record value of a frame. Raises `TypeError` on a value that MessagePack has no form for."""
    return _encoder.encode(frame)


def decode(kind: type[_F], data: bytes | None) -> _F:
    """Reads a record value; raises `FrameError` saying what is wrong with it."""
    if data is None:
        raise FrameError(f"a record without a value is no {kind.__name__}")
    try:
        frame: _F = _decoders[kind].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"{len(data)} bytes that are no {kind.__name__}: {error}") from None
    if frame.version != VERSION:
        raise FrameError(f"a {kind.__name__} of format version {frame.version}; this kstorm reads version {VERSION}")
    if type(frame) is TupleFrame:
        _check_tuples(frame)
    return frame


def pack_ids(ids: Sequence[int]) -> bytes:
    """A column of ids as bytes."""
    return pack(f"<{len(ids)}Q", *ids)


def unpack_ids(column: bytes) -> tuple[int, ...]:
    """The ids of a column; raises `FrameError` if its length is no multiple of 8."""
    if len(column) % 8:
        raise FrameError(f"a column of {len(column)} bytes: ids are 8 bytes each")
    return unpack(f"<{len(column) // 8}Q", column)


def unpack_pairs(roots: bytes, vals: bytes) -> Iterable[tuple[int, int]]:
    """Two columns side by side; raises `FrameError` if one is longer."""
    if len(roots) != len(vals):
        raise FrameError(f"{len(roots)} bytes of roots beside {len(vals)} of values: the columns must be of one length")
    return zip(unpack_ids(roots), unpack_ids(vals), strict=True)


def _check_tuples(frame: TupleFrame) -> None:
    count = frame.count
    if count < 0 or (not frame.columns and count > _MOST_EMPTY):
        raise FrameError(f"a frame that claims {count} tuples")
    for name, packed in (("roots", frame.roots), ("edges", frame.edges)):
        if packed and len(packed) != 8 * count:
            raise FrameError(f"{len(packed)} bytes of {name} for {count} tuples: it must be 8 bytes each or none")
    if len(frame.roots) != len(frame.edges):
        raise FrameError("a frame with roots but no edges, or the reverse")
    for number, column in enumerate(frame.columns):
        if len(column) != count:
            raise FrameError(f"a column (number {number}) of {len(column)} values for {count} tuples")
    for position, pairs in frame.more.items():
        if not 0 <= position < count or any(not 0 < n <= MAX_ID for pair in pairs.items() for n in pair):
            raise FrameError(f"anchors of tuple {position} in a frame of {count}: no such tuple, or no 64-bit ids")


_MOST_EMPTY = (
    100_000  # tuples without fields take no bytes, so the count alone bounds what a bad frame can make us allocate
)
