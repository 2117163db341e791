"""Wire format of the internal topics: frames of many tuples, acks or completions.

One Kafka record is one frame, so that work is done per frame and not per tuple. The encoding is
MessagePack by msgspec. Each struct is an array whose first element is the format version. Columns
of 64-bit ids are packed little-endian bytes. Records are data, never code. A record that is not a
frame of a known version raises `FrameError`. The runtime writes it to the dead letters and
continues.

A release reads its own format and the previous one (`READERS`). It writes the format that
`topology_frame_format` names (`WRITERS`). So a format change takes two rollouts: first the release
that reads both, then the setting. In between, no process receives a frame that it cannot read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import pack, unpack
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct

from kstorm.core.failure_notes import Note
from kstorm.core.frame_limits import MOST_VALUES, within
from kstorm.core.origins import OriginRun
from kstorm.core.salvage import UNREADABLE, read_by_value
from kstorm.errors import FrameError
from kstorm.topology.event_time import MOST, NEVER, Mark

VERSION: Final = 2
"""The newest format, which the structs below define."""
FIRST: Final = 1
"""The format before. It has no `runs`. Its readers skip fields at the end that they do not know."""
MAX_ID: Final = (1 << 64) - 1


class TupleFrame(Struct, array_like=True):
    version: int
    component: str
    """The emitting component."""
    task: int
    """The emitting task, topology-wide."""
    stream: str
    count: int
    """Tuples in the frame."""
    roots: bytes
    """Packed root id of each tuple, 0 if the tuple is not tracked. Empty if no tuple is tracked."""
    edges: bytes
    """Packed edge id of each tuple. Empty if no tuple is tracked."""
    more: dict[int, dict[int, int]]
    """Position → further `root → edge` pairs, for multi-anchored tuples only."""
    columns: list[list[Any]]
    """The values: one list per field, each `count` long."""
    # The fields below are for later inspection. Older releases ignore them.
    by: str = ""
    """The instance that sent it."""
    worked: int = 0
    """Milliseconds from the start of the work on the frame until it was sent."""
    parents: dict[int, list[int]] = {}
    """Position → edges of the tuples that it is anchored to, for traced trees."""
    # The fields below are new in format 2.
    runs: list[tuple[int, int]] = []
    """Emitting tasks, each with the number of its tuples, in order. Empty if all are of `task`.
    Not in format 1."""
    marks: dict[int, Mark] = {}
    """Emitting task → its watermark behind the tuples of this frame. A frame may have only these.
    Readers of format 1 skip them."""


class SalvagedFrame(TupleFrame, array_like=True):
    """The readable tuples of a `TupleFrame` in which some do not decode. It is never sent."""

    lost: int = 0
    """Number of undecodable tuples."""
    lost_pairs: Mapping[int, int] = {}
    """Root → XOR of the lost edges, for the trees of these tuples."""
    reason: str = ""
    """The decoding error of one of these tuples."""


class _UndecodedFrame(TupleFrame, array_like=True):
    """A `TupleFrame` with its values left undecoded."""

    columns: list[list[msgspec.Raw]]


class AckFrame(Struct, array_like=True):
    """Updates of trees for one acker task, XOR-folded per root."""

    version: int
    task: int
    """The sending task. For inits, it is the spout task that receives the completions."""
    init_roots: bytes = b""
    init_vals: bytes = b""
    """XOR of the edges of each root's first tuples."""
    roots: bytes = b""
    vals: bytes = b""
    """XOR of the acked edges and of the edges created by their executions."""
    failed: bytes = b""
    reset: bytes = b""
    """Roots whose timeout restarts."""
    begins: bool = False
    """The spout task starts a new run and does not wait for trees of its earlier run. Older
    releases ignore this field."""
    by: str = ""
    """The instance that sent it. This field and `worked` are as in `TupleFrame`."""
    worked: int = 0
    origins: list[OriginRun] = []
    """The source message of each tree of `init_roots`, or an empty list."""
    notes: dict[int, Note] = {}
    """Root → failure note, for some of `failed`."""


class CompletionFrame(Struct, array_like=True):
    """Completed, failed and reset trees for one spout task."""

    version: int
    unused: int
    """Always 0. Older releases need the field to read the frame."""
    acked: bytes = b""
    failed: bytes = b""
    reset: bytes = b""
    notes: dict[int, Note] = {}
    """Same as `AckFrame.notes`."""


Frame = TupleFrame | AckFrame | CompletionFrame
F = TypeVar("F", TupleFrame, AckFrame, CompletionFrame)


class _Head(Struct, array_like=True):
    """The common start of all frame formats."""

    version: int


_encoder = msgspec.msgpack.Encoder()
_skip = msgspec.msgpack.Decoder(msgspec.Raw).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_shell = msgspec.msgpack.Decoder(_UndecodedFrame).decode

Writer = Callable[[Frame], bytes]
WRITERS: Final[dict[int, Writer]] = {FIRST: _encoder.encode, VERSION: _encoder.encode}
"""By format, the encoder for a frame whose `version` is that format."""

READERS: Final[dict[type, dict[int, Callable[[bytes], Any]]]] = {
    kind: dict.fromkeys((FIRST, VERSION), msgspec.msgpack.Decoder(kind).decode)
    for kind in (TupleFrame, AckFrame, CompletionFrame)
}
"""The decoder for each kind and format. It returns a struct of the newest format that keeps its
`version`."""


def encode(frame: Frame) -> bytes:
    """Encode a frame in the newest format. Raises `TypeError` if MessagePack cannot encode a value."""
    return _encoder.encode(frame)


encode_values: Final[Callable[[list[Any]], bytes]] = _encoder.encode


def encode_tuples(frame: TupleFrame, write: Writer = encode) -> bytes:
    """Encode as `write` does, and check that the result can be decoded.

    Raises `ValueError` if a value would make the whole frame unreadable. A `msgspec.Raw` is copied
    as it is, so it can do that if it is not exactly one value. The check costs a quarter of the
    encoding.
    """
    data = write(frame)
    try:
        _skip(data)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"it contains a msgspec.Raw that is not a single MessagePack value: {error}"
        ) from None
    if not within(data):
        raise ValueError(f"it has more than {MOST_VALUES:,} values, which is the limit for a frame")
    return data


def decode(kind: type[F], data: bytes | None) -> F:
    """Decode a record value. Raises `FrameError` with the reason if it is invalid.

    If some tuples of a frame do not decode, the result is the `SalvagedFrame` rest.
    """
    if data is None:
        raise FrameError(f"a record without a value is not a valid {kind.__name__}")
    if not within(data):
        raise FrameError(
            f"{len(data)} bytes are not a valid {kind.__name__}: they have more than "
            f"{MOST_VALUES:,} values"
        )
    readers = READERS[kind]
    # In a short array that starts with a small number, that number is the second byte.
    version = data[1] if len(data) > 1 else -1
    read = readers.get(version)
    if read is None:
        version, read = _look_closer(kind, data, readers)
    try:
        frame: F = read(data)
    except UNREADABLE as error:
        salvaged = _salvaged(data) if kind is TupleFrame else None
        if salvaged is None:
            raise FrameError(
                f"{len(data)} bytes are not a valid {kind.__name__}: {error}"
            ) from None
        frame = cast("F", salvaged)
    if frame.version != version:
        raise _not_read(kind, frame.version, readers)
    if type(frame) is TupleFrame:
        _check_tuples(frame)
    return frame


def _look_closer(
    kind: type, data: bytes, readers: Mapping[int, Callable[[bytes], Any]]
) -> tuple[int, Callable[[bytes], Any]]:
    """Decode the format of a frame and return it with its reader.

    Raises `FrameError` for an unknown format.
    """
    try:
        version = _decode_head(data).version
    except UNREADABLE as error:
        raise FrameError(f"{len(data)} bytes are not a valid {kind.__name__}: {error}") from None
    if version not in readers:
        raise _not_read(kind, version, readers)
    return version, readers[version]


def _not_read(kind: type, version: int, readers: Iterable[int]) -> FrameError:
    read = " and ".join(map(str, sorted(readers)))
    advice = (
        "a newer release wrote it: keep the old topology_frame_format until every process runs a "
        "release that reads the new one"
        if version > max(readers)
        else "an older release wrote it: upgrade one format at a time, or drain the topology "
        "before the upgrade"
    )
    return FrameError(
        f"a frame of type {kind.__name__} has format version {version}, but this release reads "
        f"version {read}; {advice}"
    )


def pack_ids(ids: Sequence[int]) -> bytes:
    return pack(f"<{len(ids)}Q", *ids)


def unpack_ids(column: bytes) -> tuple[int, ...]:
    """Unpack a column of ids. Raises `FrameError` if its length is not a multiple of 8."""
    if len(column) % 8:
        raise FrameError(f"a column has {len(column)} bytes: ids have 8 bytes each")
    return unpack(f"<{len(column) // 8}Q", column)


def unpack_pairs(roots: bytes, vals: bytes) -> Iterable[tuple[int, int]]:
    """Unpack two columns as pairs. Raises `FrameError` if their lengths differ."""
    if len(roots) != len(vals):
        raise FrameError(
            f"a frame has {len(roots)} bytes of roots and {len(vals)} bytes of values: both must "
            "have the same length"
        )
    return zip(unpack_ids(roots), unpack_ids(vals), strict=True)


def _salvaged(data: bytes) -> SalvagedFrame | None:
    """Return the readable tuples of an undecodable frame, or None if it is not a frame at all."""
    try:
        found = read_by_value(data, _decode_shell)
    except (*UNREADABLE, FrameError):
        return None
    shell, bad = found.shell, found.bad
    if shell.version not in READERS[TupleFrame]:
        return None  # the layout of other formats is unknown
    _check_tuples(shell)
    kept = [position for position in range(shell.count) if position not in bad]
    roots, edges = unpack_ids(shell.roots), unpack_ids(shell.edges)
    lost: dict[int, int] = {}
    for at in bad:
        for root, edge in (
            *zip(roots[at : at + 1], edges[at : at + 1], strict=True),
            *shell.more.get(at, {}).items(),
        ):
            if root:
                lost[root] = lost.get(root, 0) ^ edge
    return SalvagedFrame(
        shell.version,
        shell.component,
        shell.task,
        shell.stream,
        len(kept),
        pack_ids([roots[position] for position in kept]) if roots else b"",
        pack_ids([edges[position] for position in kept]) if edges else b"",
        {now: shell.more[before] for now, before in enumerate(kept) if before in shell.more},
        [[column[position] for position in kept] for column in found.columns],
        runs=_runs_without(shell.runs, bad),
        lost=len(bad),
        lost_pairs=lost,
        reason=next(iter(bad.values()), ""),
    )


def _runs_without(runs: Iterable[tuple[int, int]], bad: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs that are left without the tuples at some positions."""
    left, begin = [], 0
    for task, count in runs:
        kept = count - sum(begin <= position < begin + count for position in bad)
        if kept:
            left.append((task, kept))
        begin += count
    return left


def task_of(frame: TupleFrame, position: int) -> int:
    for task, count in frame.runs:
        if position < count:
            return task
        position -= count
    return frame.task


def _check_tuples(frame: TupleFrame) -> None:
    count = frame.count
    if count < 0 or (not frame.columns and count > _MOST_EMPTY):
        raise FrameError(f"a frame claims to have {count} tuples")
    for name, packed in (("roots", frame.roots), ("edges", frame.edges)):
        if packed and len(packed) != 8 * count:
            raise FrameError(
                f"a frame of {count} tuples has {len(packed)} bytes of {name}: it must have 8 "
                "bytes per tuple, or none"
            )
    if len(frame.roots) != len(frame.edges):
        raise FrameError("a frame has roots without edges, or edges without roots")
    if frame.runs:
        _check_runs(frame)
    if any(not NEVER <= mark.at < MOST for mark in frame.marks.values()):
        raise FrameError("a frame has a watermark that cannot be a time")
    for number, column in enumerate(frame.columns):
        if len(column) != count:
            raise FrameError(f"column {number} has {len(column)} values for {count} tuples")
    for position, pairs in frame.more.items():
        if not 0 <= position < count or any(
            not 0 < n <= MAX_ID for pair in pairs.items() for n in pair
        ):
            raise FrameError(
                f"a frame of {count} tuples has anchors for tuple {position}: there is no such "
                "tuple, or they are not 64-bit ids"
            )


def _check_runs(frame: TupleFrame) -> None:
    if frame.version == FIRST or any(count < 1 for _, count in frame.runs):
        raise FrameError(f"a frame of format {frame.version} has the runs {frame.runs[:5]}")
    if sum(count for _, count in frame.runs) != frame.count:
        raise FrameError(f"the runs of a frame do not add up to its {frame.count} tuples")


# Tuples without fields take no bytes, so only the count bounds what a bad frame can allocate.
_MOST_EMPTY = 100_000
