"""For any record in an internal topic, a task accepts it or raises `FrameError`, and continues."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.wire import (
    VERSION,
    WRITERS,
    AckFrame,
    CompletionFrame,
    TupleFrame,
    decode,
    encode,
    pack_ids,
)
from kstorm.errors import FrameError
from kstorm.topology import TupleBatch
from tests.unit.core.acker import Acker
from tests.unit.core.bolt_harness import Basic, Harness, Plain
from tests.unit.core.spout_harness import Harness as SpoutHarness
from tests.unit.fuzz.hostile import ack_frames, anything, bounded, completion_frames, tuple_frames

KINDS: tuple[type[Any], ...] = (TupleFrame, AckFrame, CompletionFrame)


class Batches(Plain):
    def execute_batch(self, batch: TupleBatch) -> None:
        self.collector.emit_batch([["out"] * len(batch)], batch, list(range(len(batch))))
        self.collector.ack_batch(batch)


def echo(tuple: Any, collector: Any) -> None:
    collector.emit(["out"])


@given(anything(tuple_frames() | ack_frames | completion_frames))
def test_a_record_is_a_frame_or_refused(data: bytes) -> None:
    """Decoding raises no other error, and allocates in proportion to the data."""
    for kind in KINDS:
        with suppress(FrameError):
            assert bounded(data, lambda data, kind=kind: decode(kind, data)).version in WRITERS  # type: ignore[misc]


@given(
    st.lists(anything(tuple_frames()), max_size=3), st.sampled_from(["plain", "basic", "batches"])
)
def test_a_bolt_task_takes_a_frame_or_refuses_it(records: list[bytes], kind: str) -> None:
    """Its emits and acks for foreign frames can be sent, and it still executes its own frames."""
    bolt: Any = {"plain": Plain, "basic": Basic, "batches": Batches}[kind]()
    harness = Harness(bolt)
    bolt.do = echo if kind == "basic" else lambda tuple: echo(tuple, harness.collector)

    def receive(data: bytes) -> None:
        with suppress(FrameError):
            harness.run(harness.task.receive(decode(TupleFrame, data)))
        harness.outbox.drain_tuples()
        harness.outbox.drain_acks()

    for data in records:
        bounded(data, receive)
    before = harness.task.executed
    harness.give(("word", 5, 7))
    assert harness.task.executed == before + 1
    assert harness.sent()
    assert harness.errors == []


@given(st.lists(anything(ack_frames), max_size=5), st.booleans())
def test_a_ledger_takes_a_frame_or_refuses_it(records: list[bytes], rotates: bool) -> None:
    """Its checkpoint can be restored, its completions can be sent, and a regular tree completes."""
    acker = Acker()

    def take(data: bytes) -> None:
        with suppress(FrameError):
            acker.take(decode(AckFrame, data))
        if rotates:
            acker.ledger.rotate()
        acker.box.drain()

    for data in records:
        bounded(data, take)
    stored = acker.ledger.checkpoint()
    assert len(Acker(stored).ledger) == len(acker.ledger)
    acker.init(0xFEED, 0b110)
    acker.ack(0xFEED, 0b110)
    assert 0xFEED in [root for roots in acker.told.get("acked", {}).values() for root in roots]


@given(st.lists(anything(completion_frames), max_size=5))
def test_a_spout_task_takes_a_frame_or_refuses_it(records: list[bytes]) -> None:
    """Completions of unknown trees are counted. Pending trees stay pending."""
    harness = SpoutHarness()
    for number in range(2):
        harness.send(number)
    before = harness.task.in_flight

    def take(data: bytes) -> None:
        with suppress(FrameError):
            harness.run(harness.task.completed(decode(CompletionFrame, data), harness.now))

    for data in records:
        bounded(data, take)
    task = harness.task
    assert task.in_flight == before - len(harness.spout.acked) - len(harness.spout.failed)
    root = harness.send("mine")
    harness.told(acked=[root])
    assert harness.spout.acked[-1] == "mine"


# Cases that the tests above or a review found.


@pytest.mark.parametrize("task", [-1, 0, 2, 2**63])
def test_a_frame_of_a_task_that_its_component_does_not_have(task: int) -> None:
    """The bolt stores each known source, so a foreign source must not count."""
    harness = Harness(Plain())
    frame = TupleFrame(VERSION, "words", task, "default", 1, b"", b"", {}, [["a"]])
    with pytest.raises(
        FrameError, match=f"a frame has task {task}, which is not a task of 'words'"
    ):
        harness.task.receive(frame)


def test_the_refusal_of_a_large_frame_is_short() -> None:
    """The refusal becomes the reason of a dead letter, which must fit in a record."""
    head = msgspec.msgpack.encode([VERSION, "a", 1, "s", 1, b"", b"", {}, []])[:-1]
    with pytest.raises(FrameError) as caught:
        decode(TupleFrame, head + b"\xdd\x00\x03\x0d\x40" + b"\x90" * 200_000)
    assert len(str(caught.value)) < 200


def test_ids_of_zero() -> None:
    """A root of zero is untracked: its tuples are executed without acks."""
    harness = Harness(Basic())
    data = encode(
        TupleFrame(
            VERSION, "words", 1, "default", 2, pack_ids([0, 9]), pack_ids([3, 0]), {}, [["a", "b"]]
        )
    )
    harness.run(harness.task.receive(decode(TupleFrame, data)))
    assert harness.task.executed == 2
    assert set(harness.acks()) <= {9}
