"""A bolt's process: the order of sends, and tasks that are assigned, revoked, or both at once."""

import asyncio
from typing import Any

import pytest

from kstorm.core.dead_letters import decode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import (
    AbandonOpen,
    ApplyToStore,
    Close,
    CommitOffsets,
    Open,
    Release,
    RunUserCode,
    Send,
    StartDelivery,
    Terminate,
    Transact,
)
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import drive
from kstorm.core.wire import VERSION, AckFrame, TupleFrame, decode, encode, unpack_ids
from kstorm.errors import FencedError
from kstorm.testing import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    Stateful,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.unit.core.engines import Driven, Journal, bolt_engine, frame, topics


class Echo(BasicBolt):
    """Emits its input."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tuple["word"]])


class Count(StatefulBasicBolt):
    """Counts words, and ticks."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word = "tick" if tuple.is_tick else tuple["word"]
        self.state.put(word, self.state.get(word, 0) + 1)
        collector.emit([word, self.state.get(word)])


class Gate(BasicBolt):
    """Waits at the word "b"."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.at_b, self.go_on = asyncio.Event(), asyncio.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Gate":
        return self

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.executed.append(tuple["word"])
        if tuple["word"] == "b":
            self.at_b.set()
            await self.go_on.wait()


class Sink(Bolt):
    """Acks nothing."""

    def execute(self, tuple: Tuple) -> None:
        pass


class Pairs(Bolt):
    """Holds a tuple until the next one with the same word."""

    def __init__(self) -> None:
        self._held: dict[str, Tuple] = {}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        other = self._held.pop(tuple["word"], None)
        if other is None:
            self._held[tuple["word"]] = tuple
        else:
            self.collector.emit([tuple["word"]], [tuple, other])
            self.collector.ack(tuple)
            self.collector.ack(other)


def topology(bolt: Bolt | BasicBolt, **settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(**settings))
    builder.set_spout("words", FeederSpout("word"))
    builder.set_bolt("bolt", bolt, 2).shuffle_grouping("words")
    if not isinstance(bolt, Gate):
        builder.set_bolt("sink", Sink()).shuffle_grouping("bolt")
    return builder.build()


def driven(bolt: Bolt | BasicBolt, journal: Journal | None = None, **settings: Any) -> Driven:
    return Driven(bolt_engine(topology(bolt, **settings), "bolt", journal))


# Results, acks, offsets.


def test_an_offset_is_committed_when_all_that_it_caused_has_arrived() -> None:
    """It waits for tuples and for acks."""
    bolt = driven(Echo())
    bolt.assign(t0=7)
    bolt.poll(0, frame(7, "a"), frame(8, "b"))
    assert sorted(set(topics(bolt.take(Send)))) == ["t.__acker", "t.sink"]
    assert bolt.tick(1) == []
    bolt.deliver()
    bolt.tick(1)
    assert [commit.offsets for commit in bolt.take(CommitOffsets)] == [{0: 9}]
    assert bolt.tick(1) == []


def test_with_state_the_acks_wait_for_the_transaction() -> None:
    """Tuples leave at once. The transaction has the changes and the offset.

    After it come the local write and then the acks.
    """
    bolt = driven(Count())
    bolt.assign(t0=7)
    bolt.poll(0, frame(7, "a"))
    assert topics(bolt.take(Send)) == ["t.sink"]
    bolt.deliver()
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert (transact.offsets, {task: dict(some) for task, some in transact.changes.items()}) == (
        {0: 8},
        {0: {b"a": b"\x01"}},
    )
    bolt.effects.clear()
    bolt.do(bolt.engine.committed(transact, {0: 41}, bolt.now))
    assert [type(effect) for effect in bolt.effects] == [ApplyToStore, Send]
    assert bolt.take(ApplyToStore)[0].reached == {0: 41}
    assert set(topics(bolt.take(Send))) == {"t.__acker"}


def test_offset_excludes_results_in_flight() -> None:
    """Its results could be lost with the process, so the next owner executes it again."""
    bolt = driven(Count())
    bolt.assign(t0=7)
    bolt.poll(0, frame(7, "a"))
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert transact.offsets == {0: 7}


def test_a_checkpoint_of_ticks_alone_is_fenced_by_the_offset_of_the_assignment() -> None:
    """The task has read nothing, and changes its state on ticks.

    Without an offset, a zombie could overwrite the state of the new owner.
    """
    bolt = driven(Count(), topology_tick_tuple_freq_secs=5)
    bolt.assign(t0=7, t1=3)
    bolt.tick(6)
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert transact.offsets == {0: 7, 1: 3}
    assert set(transact.changes) == {0, 1}


def test_one_checkpoint_at_a_time() -> None:
    """A tuple executed during a checkpoint belongs to the next checkpoint."""
    bolt = driven(Count())
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"))
    bolt.tick(1)
    (first,) = bolt.take(Transact)
    bolt.poll(0, frame(1, "a"))
    bolt.tick(1)
    assert bolt.take(Transact) == []
    bolt.deliver()
    bolt.do(bolt.engine.committed(first, {0: 0}, bolt.now))
    bolt.tick(1)
    (second,) = bolt.take(Transact)
    assert (second.offsets, dict(second.changes[0])) == ({0: 2}, {b"a": b"\x02"})


def test_an_acked_offset_is_never_taken_back() -> None:
    """A transaction may commit offsets whose acks have not arrived. Later commits are not lower."""
    bolt = driven(Count())
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"))
    bolt.deliver()
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert transact.offsets == {0: 1}
    bolt.do(bolt.engine.committed(transact, {0: 0}, bolt.now))  # the acks do not arrive
    bolt.tick(10)
    assert bolt.take(CommitOffsets) == []


def test_ticks_and_checkpoints_come_while_an_async_bolt_is_always_busy() -> None:
    """They run between polls, and do not wait for an idle moment."""

    class Slow(Count):
        async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            super().execute(tuple, collector)

    async def run() -> list[str]:
        engine = bolt_engine(topology(Slow(), topology_tick_tuple_freq_secs=5), "bolt")
        (opened,) = engine.assigned({0: 0}, 0.0)
        assert isinstance(opened, Open)
        effects, seen = list(engine.opened(0, (), 0.0)), []
        for turn in range(15):  # one more poll than executed
            effects += engine.arrived([(engine.tenures[0], [frame(turn, "a")])], turn)
            effects += engine.tick(turn)
            runs = [effect for effect in effects if isinstance(effect, RunUserCode)]
            seen += [type(effect).__name__ for effect in effects if isinstance(effect, Transact)]
            effects = []
            for one in runs:
                await drive(one.steps)
                effects += engine.ran(one, turn)
        return [*seen, str(engine.states[0].get("tick", 0))]

    assert asyncio.run(run()) == ["Transact", "2"]


# Tasks that come and go.


def test_a_task_is_recovered_then_prepared_then_read() -> None:
    bolt = driven(Count())
    bolt.opens = False
    assert [type(effect) for effect in bolt.assign(t0=0)] == [Open]
    assert bolt.engine.tasks == []
    assert bolt.do(bolt.engine.opened(0, (), 0.0)) == [StartDelivery(0)]
    assert len(bolt.engine.tasks) == 1


def test_a_task_that_is_revoked_while_it_is_recovered_never_begins() -> None:
    """Its recovery stops, nothing is prepared or ticked, and another process may get it."""
    journal = Journal()
    bolt = driven(Count(), journal, topology_tick_tuple_freq_secs=1)
    bolt.opens = False
    bolt.assign(t0=0)
    assert bolt.do(bolt.engine.revoked([0], 1.0)) == [AbandonOpen(0)]
    assert bolt.do(bolt.engine.opened(0, (), 2.0)) == [Close(0), Release(0)]
    assert bolt.engine.tenures == {}
    assert bolt.tick(60) == []
    assert "made" not in journal.events


def test_task_is_released_after_its_work_is_stored_and_delivered() -> None:
    """The order is cleanup, checkpoint, acks, offset, release."""
    bolt = driven(Count())
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"))
    bolt.take(Send)
    bolt.do(bolt.engine.revoked([0], bolt.now))
    (transact,) = bolt.take(Transact)
    assert bolt.take(Release) == []
    bolt.do(bolt.engine.committed(transact, {0: 0}, bolt.now))
    assert bolt.take(CommitOffsets) == []
    bolt.deliver()
    (commit,) = bolt.take(CommitOffsets)
    assert (commit.offsets, commit.waits) == ({0: 1}, True)
    bolt.do(bolt.engine.committed(commit, {}, bolt.now))
    assert [
        type(effect)
        for effect in bolt.effects
        if not isinstance(effect, Send | ApplyToStore | StartDelivery)
    ] == [Close, Release]


def test_later_checkpoints_exclude_a_released_task() -> None:
    """Its offset could otherwise be committed in the group's next generation."""
    bolt = driven(Count())
    bolt.assign(t0=0, t1=0)
    bolt.do(bolt.engine.revoked([0], bolt.now))
    assert [commit.offsets for commit in bolt.take(CommitOffsets)] == [{0: 0}]
    bolt.poll(1, frame(0, "a"))
    bolt.tick(1)
    assert [transact.offsets for transact in bolt.take(Transact)] == [{1: 0}]


def test_wait_for_lost_results_is_limited() -> None:
    journal = Journal()
    bolt = driven(Echo(), journal)
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"))
    bolt.do(bolt.engine.revoked([0], bolt.now))
    bolt.tick(9)
    assert bolt.take(CommitOffsets) == []
    bolt.tick(2)
    assert [commit.offsets for commit in bolt.take(CommitOffsets)] == [{0: 0}]
    assert "task_left_unsettled" in journal.events


def failed_by(bolt: Driven) -> set[int]:
    """Returns the trees that failed since the last call."""
    frames = [
        decode(AckFrame, record.value)
        for send in bolt.take(Send)
        for record in send.records
        if is_ack(record)
    ]
    return {int(root) for each in frames for root in unpack_ids(each.failed)}


def is_ack(record: OutgoingRecord) -> bool:
    return record.topic.endswith("__acker")


class StatefulPairs(Stateful, Pairs):
    """A `Pairs` bolt with state."""


@pytest.mark.parametrize("kind", [Pairs, StatefulPairs])
def test_held_tuples_fail_when_their_task_leaves(kind: type[Pairs]) -> None:
    """The engine fails them after all other results have arrived, and before it releases the task.

    Their trees need not wait for a timeout.
    """
    journal = Journal()
    bolt = driven(kind(), journal)
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a", "b", "a", "c"))
    bolt.do(bolt.engine.revoked([0], bolt.now))
    assert failed_by(bolt) == set()
    bolt.deliver()
    assert failed_by(bolt) == {2, 4}
    assert "held_tuples_failed" in journal.events
    assert [commit.offsets for commit in bolt.take(CommitOffsets)] == [{0: 1}]


def test_held_tuple_is_dropped_after_its_timeout() -> None:
    """A bolt that never acks its tuples would otherwise fill the memory."""
    bolt = driven(Pairs(), topology_message_timeout_secs=30.0)
    bolt.assign(t0=0)
    bolt.tick(0)
    bolt.poll(0, frame(0, "a"))
    bolt.deliver()
    bolt.tick(31)
    bolt.poll(0, frame(1, "b"))
    bolt.deliver()
    bolt.tick(31)
    bolt.take(Send)
    bolt.do(bolt.engine.revoked([0], bolt.now))
    bolt.deliver()
    assert failed_by(bolt) == {101}


def test_undecodable_batch_is_one_dead_letter_and_the_input_continues() -> None:
    bolt = driven(Pairs())
    bolt.assign(t0=0)
    bolt.poll(0, InputRecord(0, None, undecodable="as told", offsets=7))
    letters = [
        record
        for send in bolt.take(Send)
        for record in send.records
        if record.topic == "t.__dead_letters"
    ]
    (letter,) = [decode_letter(record.value) for record in letters]
    assert (letter.topic, letter.offset, letter.reason) == ("t.bolt", 0, "as told")
    bolt.deliver()
    (tenure,) = bolt.engine.tenures.values()
    assert tenure.progress.finished == 7


def test_untracked_tuples_are_not_remembered() -> None:
    """Untracked tuples need no ack, so a topology without ackers does not fill the memory."""
    bolt = driven(Pairs())
    bolt.assign(t0=0)
    untracked = TupleFrame(VERSION, "words", 1, "default", 2, b"", b"", {}, [["a", "b"]])
    bolt.poll(0, InputRecord(0, encode(untracked)))
    (tenure,) = bolt.engine.tenures.values()
    assert tenure.task.executed == 2
    assert tenure.task.held.take() == []


def test_executed_tuples_of_a_leaving_task_are_not_repeated() -> None:
    """This covers the interrupted task and a finished task of the same poll."""

    async def run() -> None:
        gate = Gate()
        engine = bolt_engine(topology(gate), "bolt")
        bolt = Driven(engine)
        effects = [
            *engine.assigned({0: 7, 1: 3}, 0.0),
            *engine.opened(0, (), 0.0),
            *engine.opened(1, (), 0.0),
        ]
        while runs := [
            effect for effect in effects if isinstance(effect, RunUserCode)
        ]:  # their preparation
            effects = []
            for one in runs:
                await drive(one.steps)
                effects += engine.ran(one, 0.0)
        tenures = engine.tenures
        polled = [
            (tenures[0], [frame(7, "a"), frame(8, "b"), frame(9, "c")]),
            (tenures[1], [frame(3, "d")]),
        ]
        side_by_side = [
            effect for effect in engine.arrived(polled, 0.0) if isinstance(effect, RunUserCode)
        ]
        assert len(side_by_side) == 2
        handling = [asyncio.ensure_future(drive(one.steps)) for one in side_by_side]
        await gate.at_b.wait()
        assert engine.revoked([0, 1], 0.0) == []
        gate.go_on.set()
        await asyncio.gather(*handling)
        left = [effect for one in side_by_side for effect in engine.ran(one, 0.0)]
        while runs := [
            effect for effect in left if isinstance(effect, RunUserCode)
        ]:  # their cleanup
            left = [effect for effect in left if not isinstance(effect, RunUserCode)]
            for one in runs:
                await drive(one.steps)
                left += engine.ran(one, 0.0)
        for send in [effect for effect in left if isinstance(effect, Send)]:
            for _ in send.records:
                send.unit.delivered()
        left += engine.confirmed(0.0)
        assert sorted(gate.executed) == ["a", "b", "d"]
        committed: dict[int, int] = {}
        for effect in left:
            if isinstance(effect, CommitOffsets):
                committed |= effect.offsets
        assert committed == {0: 9, 1: 4}
        assert bolt.effects == []

    asyncio.run(run())


def test_a_cleanup_that_raises_is_reported_and_the_others_are_called() -> None:
    called: list[int] = []

    class Untidy(Echo):
        def cleanup(self) -> None:
            called.append(self.context.task_index)
            raise RuntimeError("no")

    journal = Journal()
    bolt = driven(Untidy(), journal)
    bolt.assign(t0=0, t1=0)
    bolt.do(bolt.engine.revoked([0, 1], 0.0))
    assert called == [0, 1]
    assert journal.errors == [("no", "in cleanup")] * 2
    assert len(bolt.take(CommitOffsets)) == 2


def test_a_prepare_that_raises_ends_the_process() -> None:
    class Broken(Echo):
        def prepare(self, config: Any, context: Any) -> None:
            raise RuntimeError("no database")

    bolt = driven(Broken())
    with pytest.raises(RuntimeError, match="no database"):
        bolt.assign(t0=0)


def test_lost_means_dead() -> None:
    """This process must not write anything for the lost tasks."""
    bolt = driven(Count())
    bolt.assign(t0=0)
    (end,) = bolt.do(bolt.engine.lost([0], 1.0))
    assert isinstance(end, Terminate)
    assert isinstance(end.error, FencedError)


def test_records_of_an_earlier_tenure_are_not_executed() -> None:
    """The process read them before it lost the task.

    The new tenure reads them again from the commit.
    """
    bolt = driven(Echo())
    bolt.assign(t0=0)
    earlier = bolt.engine.tenures[0]
    bolt.do(bolt.engine.revoked([0], 0.0))
    (commit,) = bolt.take(CommitOffsets)
    bolt.do(bolt.engine.committed(commit, {}, 0.0))
    bolt.assign(t0=0)
    bolt.take(StartDelivery)
    bolt.effects.clear()
    bolt.do(bolt.engine.arrived([(earlier, [frame(0, "a")])], 0.0))
    assert bolt.effects == []


def test_invalid_frame_becomes_a_dead_letter_and_its_neighbours_are_executed() -> None:
    bolt = driven(Echo())
    bolt.assign(t0=0)
    bolt.poll(0, frame(0, "a"), frame(1, "x", component="nobody"), frame(2, "b"))
    sent = topics(bolt.take(Send))
    assert sent.count("t.__dead_letters") == 1
    assert bolt.engine.letters.count == 1
    bolt.deliver()
    bolt.tick(1)
    assert [commit.offsets for commit in bolt.take(CommitOffsets)] == [{0: 3}]
