"""Epochs: one transaction holds everything that a process did, and nothing is sent outside of it."""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any

import pytest

from kstorm.core.dead_letters import decode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import (
    ApplyToStore,
    CommitOffsets,
    FetchRecords,
    Release,
    RunUserCode,
    Send,
    StartDelivery,
    Terminate,
    Transact,
)
from kstorm.core.engine.epochs import MOST_BYTES
from kstorm.core.exactly_once.unfinished import MARK
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import drive
from kstorm.errors import LostInputError
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.unit.core.engines import Driven, Journal, exact_bolt_engine, frame
from tests.unit.core.epoch_harness import Words, answer

LEFT = {MARK + (3).to_bytes(8, "big"): b"\x91\x94\x00\x01\xc3\x00"}
"""Row 0 of the frame at offset 3 waits for its second attempt."""


class Count(StatefulBasicBolt):
    """Counts words, and rejects "bad"."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.state.put(tuple["word"], self.state.get(tuple["word"], 0) + 1)
        collector.emit([tuple["word"]])
        if tuple["word"] == "bad":
            raise ValueError("bad")


class Slow(BasicBolt):
    """Waits for the test."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Slow":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(["first"])
        await self.go_on.wait()
        collector.emit(["second"])


def topology(bolt: BasicBolt, **settings: Any) -> Topology:
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee=EXACTLY_ONCE, topology_acker_tasks=1, **settings)
    )
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", bolt, 2).shuffle_grouping("words")
    builder.set_bolt("sink", Bolt()).shuffle_grouping("bolt")
    return builder.build()


def driven(left: Mapping[bytes, bytes] | None = None, **settings: Any) -> Driven:
    return Driven(exact_bolt_engine(topology(Count(), **settings), "bolt", (left or {}).items()))


def test_one_transaction_holds_everything() -> None:
    """A transaction has tuples, acks, sink records, dead letters, state changes and offsets of all tasks.

    It includes idle tasks, because their offsets also fence a former owner. Nothing is sent or
    committed outside the transaction.
    """
    made = driven(topology_bolt_retry_limit=0)
    made.assign(t0=7, t1=3)
    for _ in range(2):  # the first is cut at once, which leaves the second to the next epoch
        made.engine.outbox.records.append(OutgoingRecord("counts", 0, b"1"))  # type: ignore[attr-defined]
        for transact in made.tick(0):
            assert isinstance(transact, Transact)
            answer(made, transact)
    made.take(Transact)
    made.poll(0, frame(7, "a", "bad"))
    made.tick(1)
    (transact,) = made.take(Transact)
    assert sorted(record.topic for record in transact.records) == [
        "counts",
        "t.__acker",
        "t.__dead_letters",
        "t.sink",
    ]
    assert (transact.offsets, {task: dict(some) for task, some in transact.changes.items()}) == (
        {0: 8, 1: 3},
        {0: {b"a": b"\x01"}},
    )
    assert made.take(Send) == made.take(CommitOffsets) == []  # type: ignore[comparison-overlap]


def test_permanently_refused_records_become_dead_letters() -> None:
    """The same transaction is written again with the dead letters.

    Until it is committed, no effect takes place.
    """
    made = driven()
    made.assign(t0=0)
    made.poll(0, frame(0, "a"))  # the first is cut at once
    answer(made, made.take(Transact)[0])
    made.take(ApplyToStore)
    headers: list[tuple[str, str | bytes | None]] = [
        ("kstorm-source-topic", "lines"),
        ("raw", b"\xff"),
        ("none", None),
    ]
    bad = OutgoingRecord("counts", -1, "wörd", b"key", headers, 3)
    made.poll(0, frame(1, "a"))
    made.engine.outbox.records += [OutgoingRecord("counts", -1, b"1", None, None, 3), bad]  # type: ignore[attr-defined]
    made.tick(1)
    (first,) = made.take(Transact)
    made.do(
        made.engine.refused(first, {list(first.records).index(bad): "Kafka refused it"}, made.now)
    )
    assert made.take(ApplyToStore) == []
    (second,) = made.take(Transact)
    assert (second.changes, second.offsets, second.positions) == (
        first.changes,
        first.offsets,
        first.positions,
    )
    assert list(second.records)[:-1] == [record for record in first.records if record is not bad]
    (letter,) = [
        decode_letter(record.value)
        for record in second.records
        if record.topic == "t.__dead_letters"
    ]
    assert (letter.component, letter.task, letter.reason, letter.kind) == (
        "bolt",
        3,
        "Kafka refused it",
        "refused",
    )
    assert (letter.topic, letter.key, letter.value) == ("counts", b"key", "wörd".encode())
    assert letter.headers == [("kstorm-source-topic", "lines"), ("raw", "\\xff"), ("none", None)]
    assert made.engine.letters.count == 1
    assert "Kafka refused it" in made.engine.journal.errors[0][0]  # type: ignore[attr-defined]
    answer(made, second)
    assert len(made.take(ApplyToStore)) == 1


def test_refusals_may_repeat_when_an_epoch_is_rewritten() -> None:
    """The engine rewrites the epoch until Kafka accepts all its records."""
    made = driven()
    made.assign(t0=0)
    for transact in made.take(Transact):
        answer(made, transact)
    made.engine.outbox.records += [  # type: ignore[attr-defined]
        OutgoingRecord("counts", -1, b"%d" % at, None, None, 3) for at in range(3)
    ]
    made.tick(1)
    for left in (2, 1):
        (transact,) = made.take(Transact)
        made.do(made.engine.refused(transact, {0: "no"}, made.now))
        (again,) = made.take(Transact)
        topics = [record.topic for record in again.records]
        assert (topics.count("counts"), topics.count("t.__dead_letters")) == (left, 3 - left)
        made.effects.append(again)
    assert made.engine.letters.count == 2


def test_much_input_cuts_an_epoch_before_its_time() -> None:
    """Large input is cut early, so that its results can be written in time. Small input is not."""
    made = driven(topology_epoch_interval_ms=60_000)
    made.assign(t0=0)
    half = b"\xc1" * (MOST_BYTES // 2)  # no frame, so it is a dead letter
    for offset, cuts in enumerate((True, False, True, False)):
        made.poll(0, InputRecord(offset, half))
        made.tick(0.01)
        cut = made.take(Transact)  # the first is cut at once
        assert bool(cut) == cuts
        for transact in cut:
            answer(made, transact)


def test_tuples_waiting_for_a_retry_are_in_the_transaction() -> None:
    """The committed offset moves past the tuple, and the task's next owner finds it in the state."""
    made = driven()
    made.assign(t0=3)
    made.poll(0, frame(3, "bad"))
    made.tick(0.01)
    (transact,) = made.take(Transact)
    assert (transact.offsets, dict(transact.changes[0])) == ({0: 4}, LEFT)
    assert [record.topic for record in transact.records] == []


def test_the_next_epoch_is_cut_after_the_answer() -> None:
    """Work continues during a transaction.

    The local copy comes next, and then the cut of later work.
    """
    made = driven()
    made.assign(t0=0)
    made.poll(0, frame(0, "a"))
    made.tick(1)
    (first,) = made.take(Transact)
    made.poll(0, frame(1, "a"))
    made.tick(60)
    assert made.take(Transact) == made.take(ApplyToStore) == []  # type: ignore[comparison-overlap]
    assert dict(first.changes[0]) == {b"a": b"\x01"}
    answer(made, first, 41)
    assert [type(effect) for effect in made.effects if not isinstance(effect, StartDelivery)] == [
        ApplyToStore,
        Transact,
    ]
    assert made.take(ApplyToStore)[0].reached == {0: 41}
    (second,) = made.take(Transact)
    assert (second.offsets, dict(second.changes[0])) == ({0: 2}, {b"a": b"\x02"})


def test_epoch_has_a_due_time() -> None:
    """The driver cuts the epoch at that time.

    Without work, or during a transaction, nothing is due.
    """
    made = driven(topology_epoch_interval_ms=20)
    made.assign(t0=0)
    made.poll(0, frame(0, "a"))  # the first is cut at once
    made.now = 1.0
    assert made.engine.due == inf
    (first,) = made.take(Transact)
    answer(made, first)
    assert made.engine.due == inf
    made.tick(0.01)
    made.poll(0, frame(1, "a"))
    (second,) = made.take(Transact)
    made.poll(0, frame(2, "a"))
    assert made.engine.due == inf
    answer(made, second)
    assert made.engine.due == pytest.approx(
        1.031
    )  # a twentieth longer, because the process was busy to the end
    made.tick(0.022)
    assert len(made.take(Transact)) == 1


def waits(every: int, *parts: int, interval: int = 100) -> list[int]:
    """Returns each frame's wait for its cut in three seconds of epochs of `interval` ms.

    A frame arrives at each of the `parts`, in ms, of every period of `every` ms.
    """
    made = driven(topology_epoch_interval_ms=interval)
    found: list[int] = []
    came: list[int] = []
    made.assign(t0=0)
    for at in range(3000):
        made.tick(0.001)
        if at % every in parts:
            made.poll(0, frame(len(found) + len(came), "a"))
            came.append(at)
        for transact in made.take(Transact):
            found += [at - one for one in came]
            came.clear()
            answer(made, transact)
    return found


@pytest.mark.parametrize(
    ("interval", "every"), [(100, 100), (100, 103), (100, 105), (20, 20), (20, 21)]
)
def test_epochs_align_with_commits_of_the_upstream_component(interval: int, every: int) -> None:
    """A burst is then in one epoch, and waits for it only briefly."""
    assert max(waits(every, 0, 3, interval=interval)[-40:]) <= interval / 5


def test_constant_work_does_not_shorten_epochs() -> None:
    """A frame waits for half an interval on average."""
    found = waits(4, 0)
    assert 45 <= sum(found) / len(found) <= 55


def test_no_cut_during_an_execution() -> None:
    """Everything that an async bolt does before and after an await is in one epoch."""

    async def run() -> None:
        slow = Slow()
        engine = exact_bolt_engine(topology(slow), "bolt")
        made = Driven(engine)
        effects = engine.assigned({0: 0}, 0.0) + engine.opened(0, (), 0.0)
        for one in [effect for effect in effects if isinstance(effect, RunUserCode)]:
            await drive(one.steps)
            engine.ran(one, 0.0)
        (running,) = [
            one
            for one in engine.arrived([(engine.tenures[0], [frame(0, "a")])], 0.0)
            if isinstance(one, RunUserCode)
        ]
        handling = asyncio.ensure_future(drive(running.steps))
        await asyncio.sleep(0)
        engine.outbox.records.append(
            OutgoingRecord("counts", 0, b"1")
        )  # something that an epoch could hold
        assert made.do(engine.checkpoint(60.0)) == []
        slow.go_on.set()
        await handling
        (transact,) = engine.ran(running, 61.0) + engine.tick(61.0)
        assert isinstance(transact, Transact)
        assert sorted({record.topic for record in transact.records}) == [
            "counts",
            "t.__acker",
            "t.sink",
        ]
        assert transact.offsets == {0: 1}

    asyncio.run(run())


def test_due_epoch_interrupts_a_poll() -> None:
    """The cut includes the executed part of a long poll. The rest continues in each task's order."""
    made = driven()
    made.assign(t0=0, t1=0)
    engine = made.engine
    polled = [
        (engine.tenures[0], [frame(0, "a"), frame(1, "b")]),
        (engine.tenures[1], [frame(0, "c")]),
    ]
    (running,) = engine.arrived(polled, 0.0)
    assert isinstance(running, RunUserCode)
    assert next(running.steps) is None  # the pause after the first frame
    assert made.tick(1) == []
    with pytest.raises(StopIteration):
        next(running.steps)
    made.do(engine.ran(running, made.now))
    (first,) = made.take(Transact)
    assert (first.offsets, dict(first.changes)) == ({0: 1, 1: 0}, {0: [(b"a", b"\x01")]})
    answer(made, first)
    assert engine.intake.records == 3
    made.tick(1)
    (second,) = made.take(Transact)
    assert (second.offsets, dict(second.changes)) == (
        {0: 2, 1: 1},
        {0: [(b"b", b"\x01")], 1: [(b"c", b"\x01")]},
    )
    answer(made, second)
    assert engine.intake.records == 0


def test_poll_continues_while_an_epoch_is_written() -> None:
    """A second cut would not be possible."""
    made = driven()
    made.assign(t0=0)
    made.poll(0, frame(0, "a"))
    made.tick(1)
    (first,) = made.take(Transact)
    (running,) = made.engine.arrived(
        [(made.engine.tenures[0], [frame(1, "b"), frame(2, "c")])], made.now
    )
    assert isinstance(running, RunUserCode)
    next(running.steps)
    made.tick(1)
    with pytest.raises(StopIteration):
        next(running.steps)
    assert made.do(made.engine.ran(running, made.now)) == []
    answer(made, first)
    made.tick(1)
    assert [transact.offsets for transact in made.take(Transact)] == [{0: 3}]


def test_a_task_leaves_after_its_epoch() -> None:
    """The process commits the task's work before it releases the task.

    Later epochs exclude the task.
    """
    made = driven()
    made.assign(t0=0, t1=0)
    made.poll(0, frame(0, "a"))
    made.tick(1)
    (first,) = made.take(Transact)
    made.poll(0, frame(1, "a"))
    made.do(made.engine.revoked([0], made.now))
    answer(made, first)
    assert made.take(Release) == []
    (second,) = made.take(Transact)
    assert second.offsets == {0: 2, 1: 0}
    answer(made, second)
    assert made.take(Release) == [Release(0)]
    made.poll(1, frame(0, "b"))
    made.tick(1)
    assert [transact.offsets for transact in made.take(Transact)] == [{1: 1}]


def test_unfinished_tuples_of_the_former_owner_are_retried() -> None:
    """The retry precedes the task's start. Its result is in the next transaction."""
    made = driven(LEFT)
    made.assign(t0=4)
    (fetch,) = made.take(FetchRecords)
    assert (fetch.task, fetch.offsets) == (0, [3])
    assert made.take(StartDelivery) == []
    made.do(made.engine.fetched(fetch, [frame(3, "a", "b")], made.now))
    assert made.take(StartDelivery) == [StartDelivery(0)]
    made.tick(1)
    (nothing,) = made.take(Transact)  # cut before the retry
    answer(made, nothing)
    made.tick(1)
    (transact,) = made.take(Transact)
    assert (transact.offsets, dict(transact.changes[0])) == (
        {0: 4},
        {b"a": b"\x01", next(iter(LEFT)): None},
    )


def test_task_with_inherited_tuples_is_in_every_transaction() -> None:
    """The tuples belong to this process.

    Kafka must refuse their emits if the process lost the task.
    """
    made = driven(LEFT)
    made.assign(t0=4)
    made.engine.outbox.records.append(OutgoingRecord("counts", 0, b"1"))  # type: ignore[attr-defined]
    made.tick(1)
    assert [transact.offsets for transact in made.take(Transact)] == [{0: 4}]


def test_missing_frame_ends_the_process() -> None:
    """The process cannot skip an unfinished tuple, so it exits with an error that names the remedy."""
    made = driven(LEFT)
    made.assign(t0=4)
    (fetch,) = made.take(FetchRecords)
    made.do(made.engine.fetched(fetch, [], made.now))
    (end,) = made.take(Terminate)
    assert isinstance(end.error, LostInputError)
    with pytest.raises(
        LostInputError, match=r"1 unfinished frames .*offsets \[3\].*raise the topic's retention.ms"
    ):
        raise end.error
    assert made.take(StartDelivery) == []


def test_tuples_that_are_held_too_long_are_named() -> None:
    """Each is named once. Only the bolt can end their trees and free their pending slots."""
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee=EXACTLY_ONCE, topology_message_timeout_secs=30)
    )
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", Bolt()).shuffle_grouping("words")
    builder.set_bolt("holds", Holds()).shuffle_grouping("words")
    journal = Journal()
    made = Driven(exact_bolt_engine(builder.build(), "holds", (), journal))
    made.assign(t0=0)
    made.poll(0, frame(0, "a", "b"))
    for _ in range(2):
        made.tick(29)
    assert "held_too_long" not in journal.events
    made.tick(30)
    made.tick(30)
    made.tick(30)
    (event,) = [number for number, name in enumerate(journal.events) if name == "held_too_long"]
    why = journal.fields[event]["why"]
    assert why.startswith("'holds' has neither acked nor failed 2 tuples for longer than")
    assert "'words' on the stream 'default' (row 0 of the frame at offset 0 of t.holds-0)" in why


class Holds(Bolt):
    """Forgets what it gets."""

    def execute(self, tuple: Tuple) -> None:
        pass
