"""New frame fields are at the end, so that two releases can read each other during a rollout."""

from typing import Any

import msgspec
import pytest

from kstorm.core.failure_notes import Note
from kstorm.core.origins import OriginRun
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, Frame, TupleFrame, decode, encode

BEFORE: dict[type[Frame], tuple[str, ...]] = {
    TupleFrame: (
        "version",
        "component",
        "task",
        "stream",
        "count",
        "roots",
        "edges",
        "more",
        "columns",
    ),
    AckFrame: (
        "version",
        "task",
        "init_roots",
        "init_vals",
        "roots",
        "vals",
        "failed",
        "reset",
        "begins",
    ),
    CompletionFrame: ("version", "unused", "acked", "failed", "reset"),
}
"""The fields of the release of 24 November 2026, in order."""

NOTE = Note(4, "KeyError", "'x'", "join.py:41")
FRAMES: list[Any] = [
    TupleFrame(
        VERSION,
        "a",
        1,
        "s",
        1,
        b"r" * 8,
        b"e" * 8,
        {},
        [["x"]],
        by="a-0",
        worked=7,
        parents={0: [9]},
    ),
    AckFrame(
        VERSION,
        1,
        b"r" * 8,
        b"v" * 8,
        by="a-0",
        worked=7,
        origins=[OriginRun("t", 0, 1, 1, 5)],
        notes={3: NOTE},
    ),
    CompletionFrame(VERSION, 0, b"a" * 8, b"f" * 8, notes={3: NOTE}),
]


def of_before(kind: type[Frame]) -> Any:
    """Returns the struct with its earlier fields."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return msgspec.defstruct(
        kind.__name__, [(name, types[name]) for name in BEFORE[kind]], array_like=True
    )


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_each_reads_the_others(frame: Any) -> None:
    """The older release skips unknown fields, and the newer one uses defaults for missing fields."""
    kind = type(frame)
    older = msgspec.msgpack.decode(encode(frame), type=of_before(kind))
    known = {name: getattr(frame, name) for name in BEFORE[kind]}
    assert {name: getattr(older, name) for name in BEFORE[kind]} == known
    assert decode(kind, msgspec.msgpack.encode(older)) == kind(**known)
