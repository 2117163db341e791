"""An acker's process: completions leave at once, and the checkpoint follows them.

A task takes a last checkpoint before it leaves.
"""

from typing import Any

import pytest

from kstorm.core.completion_box import CompletionBox
from kstorm.core.dead_letters import decode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine import acker_engine as acker_module
from kstorm.core.engine.effects import (
    ApplyToStore,
    Close,
    CommitOffsets,
    Effect,
    Release,
    Send,
    Transact,
)
from kstorm.core.ledger import Ledger
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    CompletionFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
)
from kstorm.testing import FeederSpout
from kstorm.topology import Bolt, Config, Topology, TopologyBuilder, Tuple
from tests.unit.core.engines import Driven, Journal, acker_engine, topics

OPEN, ENDED = 7, 8  # roots


class Sink(Bolt):
    def execute(self, tuple: Tuple) -> None:
        pass


def topology(**settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(topology_acker_tasks=2, **settings))
    builder.set_spout("spout", FeederSpout("word"))
    builder.set_bolt("sink", Sink()).shuffle_grouping("spout")
    return builder.build()


def ackers(journal: Journal | None = None, **settings: Any) -> Driven:
    """Builds an engine with task 0, whose input resumes at offset 3."""
    driven = Driven(acker_engine(topology(**settings), journal))
    driven.assign(t0=3)
    driven.effects.clear()
    return driven


def begins(offset: int, *roots: int) -> InputRecord:
    """Builds trees whose first edge is their root's number."""
    packed = pack_ids(roots)
    task = topology().task_ids("spout")[0]
    return InputRecord(offset, encode(AckFrame(VERSION, task, init_roots=packed, init_vals=packed)))


def acks(offset: int, *roots: int) -> InputRecord:
    """Builds the acks of those edges."""
    return InputRecord(
        offset, encode(AckFrame(VERSION, 0, roots=pack_ids(roots), vals=pack_ids(roots)))
    )


def trees(transact: Transact) -> int:
    """Returns the rows that a restore of task 0 would yield."""
    ledger = Ledger(CompletionBox(topology()))
    ledger.restore([(key, value) for key, value in transact.changes[0] if value is not None])
    return len(ledger)


def left(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, Close | Release)]


# Frames.


def test_a_completion_leaves_at_once() -> None:
    """A checkpoint would delay it by up to a second."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN, ENDED), acks(4, ENDED))
    ((record,),) = [send.records for send in acker.take(Send)]
    assert record.topic == "t.spout.__completions"
    assert unpack_ids(decode(CompletionFrame, record.value).acked) == (ENDED,)


def test_invalid_frame_becomes_a_dead_letter_and_its_neighbours_are_applied() -> None:
    acker = ackers()
    acker.poll(0, begins(3, ENDED), InputRecord(4, b"?"), acks(5, ENDED))
    assert sorted(topics(acker.take(Send))) == ["t.__dead_letters", "t.spout.__completions"]
    assert acker.engine.letters.count == 1
    acker.tick(0)
    assert acker.take(CommitOffsets) == []  # the letter has not arrived
    acker.deliver()
    assert [commit.offsets for commit in acker.take(CommitOffsets)] == [{0: 6}]


def test_undecodable_batch_is_one_dead_letter_and_the_input_continues() -> None:
    acker = ackers()
    acker.poll(0, begins(3, ENDED), InputRecord(4, None, undecodable="as told", offsets=20))
    acker.poll(0, acks(24, ENDED))
    letters = [
        record
        for send in acker.take(Send)
        for record in send.records
        if record.topic == "t.__dead_letters"
    ]
    (letter,) = [decode_letter(record.value) for record in letters]
    assert (letter.topic, letter.partition, letter.offset, letter.reason) == (
        "t.__acker",
        0,
        4,
        "as told",
    )
    assert (letter.kind, letters[0].key) == ("undecodable", b"t.__acker/0/4/__acker")
    acker.deliver()
    acker.tick(0)
    assert [commit.offsets for commit in acker.take(CommitOffsets)] == [{0: 25}]


def test_input_that_ends_with_an_undecodable_batch_is_committed_to_its_end() -> None:
    """A process that started in the middle of the batch would fail on it again."""
    acker = ackers()
    acker.poll(0, InputRecord(3, None, undecodable="as told", offsets=7))
    acker.deliver()
    acker.tick(0)
    assert [commit.offsets for commit in acker.take(CommitOffsets)] == [{0: 10}]


# Checkpoints.


def test_a_checkpoint_waits_for_the_completions_and_the_disk_for_the_checkpoint() -> None:
    """Otherwise a lost completion, whose row is already deleted, would never be repeated."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN, ENDED), acks(4, ENDED))
    acker.tick(0)
    assert acker.take(Transact) == []
    acker.deliver()
    (transact,) = acker.take(Transact)
    assert (transact.offsets, trees(transact)) == ({0: 5}, 1)
    assert acker.take(ApplyToStore) == []
    acker.do(acker.engine.committed(transact, {0: 41}, acker.now))
    (keep,) = acker.take(ApplyToStore)
    assert (keep.changes, keep.reached) == (transact.changes, {0: 41})


def test_frames_after_the_cut_belong_to_the_next_checkpoint() -> None:
    """Neither its rows nor its offset are in the pending checkpoint."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN, ENDED), acks(4, ENDED))
    acker.tick(0)
    acker.poll(0, begins(5, 9))
    acker.deliver()
    (first,) = acker.take(Transact)
    assert (first.offsets, trees(first)) == ({0: 5}, 1)
    acker.do(acker.engine.committed(first, {0: 1}, acker.now))
    acker.tick(1)
    (second,) = acker.take(Transact)
    assert second.offsets == {0: 6}


def test_buckets_whose_completions_do_not_arrive_in_time_are_taken_again() -> None:
    """The checkpoint is abandoned without a write, and the next one covers it."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN, ENDED), acks(4, ENDED))
    acker.tick(0)
    acker.tick(11)
    assert acker.take(Transact) == []
    acker.deliver()
    assert acker.take(Transact) == []
    acker.tick(1)
    (transact,) = acker.take(Transact)
    assert (transact.offsets, trees(transact)) == ({0: 5}, 1)


def test_only_the_offset_is_committed_without_changed_buckets() -> None:
    """The commit needs no transaction. Trees that began and ended since then leave no trace."""
    acker = ackers()
    acker.poll(0, begins(3, ENDED), acks(4, ENDED))
    acker.deliver()
    acker.tick(1)
    assert acker.take(Transact) == []
    assert [(commit.offsets, commit.waits) for commit in acker.take(CommitOffsets)] == [
        ({0: 5}, False)
    ]
    assert acker.tick(1) == []


@pytest.mark.parametrize(("rows", "seconds"), [(1, 1), (2, 1), (6, 3), (20, 5)])
def test_checkpoints_are_rarer_while_many_trees_are_open(
    monkeypatch: pytest.MonkeyPatch, rows: int, seconds: int
) -> None:
    """With many open trees, each checkpoint stores nearly all of them."""
    monkeypatch.setattr(acker_module, "_ROWS_AN_INTERVAL", 2)
    acker = ackers()
    acker.poll(0, begins(3, *range(1, rows + 1)))
    acker.tick(0)
    (transact,) = acker.take(Transact)
    acker.do(acker.engine.committed(transact, {0: 1}, acker.now))
    acker.poll(0, acks(4, 1))
    acker.deliver()
    acker.tick(seconds - 0.5)
    assert acker.take(Transact) == []
    acker.tick(0.5)
    assert len(acker.take(Transact)) == 1


def test_one_checkpoint_at_a_time() -> None:
    acker = ackers()
    acker.poll(0, begins(3, OPEN))
    acker.tick(0)
    (first,) = acker.take(Transact)
    acker.poll(0, begins(4, 9))
    acker.tick(5)
    assert acker.take(Transact) == []
    acker.do(acker.engine.committed(first, {0: 1}, acker.now))
    acker.tick(0)
    (second,) = acker.take(Transact)
    assert (first.offsets, second.offsets) == ({0: 4}, {0: 5})


def test_a_restored_ledger_completes_what_it_held() -> None:
    """It skips the records that its buckets include."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN))
    acker.tick(0)
    (transact,) = acker.take(Transact)
    stored = [(key, value) for key, value in transact.changes[0] if value is not None]
    next_one = Driven(acker_engine(topology(), stored=stored))
    next_one.assign(t0=3)
    next_one.poll(0, begins(3, OPEN), acks(4, OPEN))
    assert topics(next_one.take(Send)) == ["t.spout.__completions"]


# Tasks that leave.


def test_a_task_that_leaves_takes_a_last_checkpoint() -> None:
    """The task is released after the checkpoint is on disk. Other tasks are not in it."""
    acker = ackers()
    acker.assign(t1=0)
    acker.poll(0, begins(3, OPEN))
    acker.poll(1, begins(0, 9))
    effects = acker.do(acker.engine.revoked([0], 0.0))
    (transact,) = acker.take(Transact)
    assert (left(effects), transact.offsets, set(transact.changes)) == ([], {0: 4}, {0})
    effects = acker.do(acker.engine.committed(transact, {0: 0}, 0.0))
    assert [type(effect) for effect in effects] == [ApplyToStore, Close, Release]
    assert set(acker.engine.tenures) == {1}


def test_a_task_that_leaves_without_a_changed_bucket_waits_for_its_commit() -> None:
    """Otherwise another process could get the task and start before the offset."""
    acker = ackers()
    acker.poll(0, begins(3, ENDED), acks(4, ENDED))
    acker.deliver()
    assert left(acker.do(acker.engine.revoked([0], 0.0))) == []
    (commit,) = acker.take(CommitOffsets)
    assert (commit.offsets, commit.waits) == ({0: 5}, True)
    assert left(acker.do(acker.engine.committed(commit, {}, 0.0))) == [Close(0), Release(0)]


def test_wait_of_a_leaving_task_is_limited() -> None:
    """No offset covers a completion that has not arrived, so the next owner applies it again."""
    journal = Journal()
    acker = ackers(journal)
    acker.poll(0, begins(3, OPEN, ENDED), acks(4, ENDED))
    acker.do(acker.engine.revoked([0], 0.0))
    assert left(acker.tick(9)) == []
    assert left(acker.tick(2)) == [Close(0), Release(0)]
    assert "task_left_without_checkpoint" in journal.events
    assert [*acker.take(Transact), *acker.take(CommitOffsets)] == []


def test_a_task_that_leaves_waits_for_the_checkpoint_that_is_being_written() -> None:
    """Transactions are serial, so the last one comes after the present one."""
    acker = ackers()
    acker.poll(0, begins(3, OPEN))
    acker.tick(0)
    (first,) = acker.take(Transact)
    acker.poll(0, begins(4, 9))
    acker.do(acker.engine.revoked([0], 0.0))
    assert acker.take(Transact) == []
    acker.do(acker.engine.committed(first, {0: 0}, 0.0))
    (last,) = acker.take(Transact)
    assert (first.offsets, last.offsets) == ({0: 4}, {0: 5})
    assert left(acker.do(acker.engine.committed(last, {0: 1}, 0.0))) == [Close(0), Release(0)]


# Time.


def test_rows_age_once_per_message_timeout_however_often_the_clock_is_looked_at() -> None:
    """The acker drops a row without an init after three rotations."""
    acker = ackers(topology_message_timeout_secs=30)
    acker.poll(0, acks(3, OPEN))
    rows = []
    for _ in range(9):
        acker.tick(10)
        rows.append(len(acker.engine.tasks[0]))
    assert rows == [1] * 8 + [0]
