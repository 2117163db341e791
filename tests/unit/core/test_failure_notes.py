"""A failure's reason travels with it from the bolt through the acker to the spout."""

import json

import pytest

from kstorm.core.failure_notes import MOST_NOTES, Note, note_of, place_of
from kstorm.core.outbox import Outbox
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, decode, pack_ids, unpack_ids
from kstorm.errors import FailedException, FrameError
from tests.unit.core.acker import SPOUT, Acker
from tests.unit.core.bolt_harness import Harness as BoltHarness
from tests.unit.core.bolt_harness import Plain
from tests.unit.core.spout_harness import Harness as SpoutHarness
from tests.unit.core.spout_harness import T
from tests.unit.core.test_outbox import topology

NOTE = Note(4, "KeyError", "'x'", "join.py:41")


def acks(outbox: Outbox) -> list[AckFrame]:
    return [decode(AckFrame, send.value) for send in outbox.drain_acks()]


def test_note_has_the_place_of_the_error() -> None:
    """The place is the innermost line of the user's code, not that of a library."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    note = note_of(3, caught.value)
    assert (note.task, note.type) == (3, "JSONDecodeError")
    assert note.message.startswith("Expecting property name")
    assert note.where.startswith("test_failure_notes.py:")
    assert note_of(3, ValueError("never raised")).where == ""


def test_one_error_of_kstorms_own_has_one_place() -> None:
    """The place does not depend on the caller, because dead letters are grouped by it."""

    def lead_to_it() -> None:
        decode(AckFrame, b"no")

    with pytest.raises(FrameError) as caught:
        decode(AckFrame, b"no")
    with pytest.raises(FrameError) as led:
        lead_to_it()
    assert _where(caught.value) == _where(led.value)
    assert _where(led.value).startswith("wire.py:")


def _where(error: BaseException) -> str:
    """Returns the error's place without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return place_of(error.with_traceback(trace))


def test_a_note_is_short_and_can_be_written() -> None:
    """A long message is cut, and invalid characters are escaped."""
    note = note_of(1, ValueError("\ud800" + "x" * 1000))
    assert len(note.message) == 200
    assert note.message.startswith("\\ud800xxx")
    frame = AckFrame(VERSION, 0, notes={1: note})
    assert decode(AckFrame, Outbox(topology())._write(frame)).notes == {1: note}


@pytest.fixture
def bolt() -> Plain:
    return Plain()


@pytest.fixture
def harness(bolt: Plain) -> BoltHarness:
    return BoltHarness(bolt)


def test_note_has_the_error_of_the_bolt(bolt: Plain, harness: BoltHarness) -> None:
    """After `fail`, or a FailedException of the bolt, the note at least names the task."""

    def explode(_: object) -> None:
        raise FailedException("not today")

    bolt.do = explode
    harness.give(("a", 2, 20))
    bolt.do = harness.collector.fail
    harness.give(("b", 6, 60))
    notes = {root: note for frame in acks(harness.outbox) for root, note in frame.notes.items()}
    task = harness.task.task_id
    assert notes[2].task == notes[6].task == task
    assert (notes[2].type, notes[2].message, notes[2].where.partition(":")[0]) == (
        "FailedException",
        "not today",
        "test_failure_notes.py",
    )
    assert notes[6] == Note(task)
    assert [frame.notes for frame in acks(harness.outbox)] == []


def test_each_acker_gets_the_notes_of_its_trees() -> None:
    """With many failures at once, only some carry a note."""
    outbox = Outbox(topology())
    outbox.fail([5, 6, 9], NOTE)
    found = {send.partition: decode(AckFrame, send.value).notes for send in outbox.drain_acks()}
    assert {partition: notes for partition, notes in found.items() if notes} == {
        1: {5: NOTE, 9: NOTE},
        2: {6: NOTE},
    }
    outbox.fail(range(1, 1000), NOTE)
    assert not outbox.wants_notes
    frames = acks(outbox)
    assert sum(len(frame.notes) for frame in frames) == MOST_NOTES
    assert sum(len(unpack_ids(frame.failed)) for frame in frames) == 999
    assert outbox.wants_notes


def test_continuing_tree_has_no_note() -> None:
    """If a tuple without a record becomes a dead letter, its trees continue without it."""
    outbox = Outbox(topology())
    outbox.fail([1, 2], NOTE)
    outbox.go_on_without({1: 9})
    found = {send.partition: decode(AckFrame, send.value) for send in outbox.drain_acks()}
    assert (unpack_ids(found[2].failed), found[2].notes) == ((2,), {2: NOTE})
    going_on = found[1]
    assert (unpack_ids(going_on.roots), unpack_ids(going_on.vals)) == ((1,), (9,))
    assert (unpack_ids(going_on.failed), going_on.notes) == ((), {})


@pytest.mark.parametrize("init_first", [True, False])
def test_the_acker_passes_it_on(init_first: bool) -> None:
    """The note goes once to the spout that waits for the tree. Notes of other trees are not sent."""
    acker = Acker()
    if init_first:
        acker.init(7, 70)
    acker.take(AckFrame(VERSION, 0, failed=pack_ids([7, 8]), notes={7: NOTE, 8: NOTE}))
    if not init_first:
        acker.init(7, 70)
    (send,) = acker.box.drain()
    frame = decode(CompletionFrame, send.value)
    assert (unpack_ids(frame.failed), frame.notes) == ((7,), {7: NOTE})
    assert acker.box.places[SPOUT] == (send.topic, send.partition)
    assert acker.box.notes == {}


def test_an_acker_keeps_few_notes() -> None:
    """The ledger drops the notes of trees that never complete."""
    acker = Acker()
    for first in range(1, 30_001, 100):
        roots = range(first, first + 100)
        acker.take(AckFrame(VERSION, 0, failed=pack_ids(roots), notes=dict.fromkeys(roots, NOTE)))
    assert len(acker.ledger._notes) <= 10_000


def test_reason_is_available_during_fail() -> None:
    """The reason is available only during `on_fail`. A timed-out tree has no note and is marked so."""
    harness = SpoutHarness()
    collector = harness.task.collector
    heard: list[tuple[object, Note | None, bool]] = []
    harness.spout.on_fail = lambda id: heard.append((id, collector.why_failed, collector.timed_out))
    roots = [harness.send(id) for id in ("a", "b", "c")]
    frame = CompletionFrame(VERSION, 0, failed=pack_ids(roots[:2]), notes={roots[0]: NOTE})
    harness.run(harness.task.completed(frame, harness.now))
    harness.pass_time(1.6 * T)
    assert heard == [("a", NOTE, False), ("b", None, False), ("c", None, True)]
    assert (collector.why_failed, collector.timed_out) == (None, False)
