"""The epochs of a spout commit its position with its emits."""

from math import inf

import pytest

from kstorm.core.engine import Effect
from kstorm.core.engine.effects import Release, Send, Transact
from kstorm.core.engine.epochs import MOST_UNITS
from kstorm.core.wire import AckFrame, TupleFrame, decode
from kstorm.topology import Bolt, Config, TopologyBuilder
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.topology.event_time import NEVER, Mark
from kstorm.windows import Duration, WindowedBolt
from tests.unit.core.engines import Driven, Journal, exact_spout_engine
from tests.unit.core.epoch_harness import Words, answer


def spouts() -> tuple[Words, Driven]:
    spout = Words()
    builder = TopologyBuilder(
        "t",
        Config(
            topology_processing_guarantee=EXACTLY_ONCE,
            topology_acker_tasks=1,
            topology_max_spout_pending=10**6,
        ),
    )
    builder.set_spout("words", spout)
    builder.set_bolt("sink", Bolt()).shuffle_grouping("words")
    return spout, Driven(exact_spout_engine(builder.build(), "words"))


def emit(made: Driven) -> list[Effect]:
    return made.do(made.engine.emit(made.now))  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["deactivate", "close"])
def test_error_in_the_last_call_of_a_spout_is_reported(method: str) -> None:
    """The process continues with its other tasks, and releases this one as usual."""

    def raises() -> None:
        raise RuntimeError("no")

    spout, made = spouts()
    setattr(spout, method, raises)
    made.assign(t0=0)
    emit(made)
    made.do(made.engine.revoked([0], made.now))
    while under_way := made.take(Transact):
        answer(made, under_way[0])
    assert made.take(Release) == [Release(0)]
    assert made.engine.journal.errors == [("no", f"in {method}")]  # type: ignore[attr-defined]


def test_a_spouts_position_is_committed_with_what_it_emitted() -> None:
    """The spout then receives the committed position. Nothing else is sent."""
    spout, made = spouts()
    made.assign(t0=0)
    made.now = 1.0
    emit(made)
    (start,) = made.take(Transact)
    assert (start.positions, [one.topic for one in start.records]) == (
        {("lines", 0): 0},
        ["t.__acker"],
    )
    answer(made, start)
    spout.committed.clear()
    made.tick(1)
    (transact,) = made.take(Transact)
    assert transact.positions == {("lines", 0): spout.at}
    assert {record.topic for record in transact.records} == {"t.sink", "t.__acker"}
    assert spout.committed == []
    answer(made, transact)
    assert spout.committed == [transact.positions]
    assert made.take(Send) == []


def test_a_spout_waits_while_much_waits_to_be_written() -> None:
    """The memory of an epoch is limited, however long a transaction takes."""
    spout, made = spouts()
    made.assign(t0=0)
    made.now = 1.0
    emit(made)
    (transact,) = made.take(Transact)
    for _ in range(MOST_UNITS):
        emit(made)
    before = spout.at
    emit(made)
    assert spout.at == before
    assert made.engine.rest > 0  # type: ignore[attr-defined]
    answer(made, transact)
    made.tick(1)
    emit(made)
    assert spout.at > before


def test_first_epoch_announces_the_run() -> None:
    """The ackers receive the start of the run once, and before its trees."""
    _, made = spouts()
    made.assign(t0=0)
    heard: list[tuple[bool, bool]] = []
    for _ in range(5):
        made.now += 1.0
        emit(made)
        for transact in made.take(Transact):
            frames = [
                decode(AckFrame, one.value) for one in transact.records if one.topic == "t.__acker"
            ]
            heard += [(frame.begins, bool(frame.init_roots)) for frame in frames]
            answer(made, transact)
    assert heard[:2] == [(True, False), (False, True)]
    assert not any(begins for begins, _ in heard[1:])


def test_nothing_is_written_before_a_position_is_known() -> None:
    """Kafka would accept a transaction without offsets from a process that has lost its tasks.

    The ackers would then drop the trees of the next owner, and its tuples would stay pending forever
    (the simulation's seed 505069).
    """
    spout, made = spouts()
    spout.knows = False
    made.assign(t0=0)
    for _ in range(MOST_UNITS + 1):
        made.now += 1.0
        emit(made)
    assert made.tick(1) == []
    assert made.engine.leaving.due == inf  # type: ignore[attr-defined]
    spout.knows = True
    emit(made)
    (transact,) = made.take(Transact)
    assert transact.positions == {("lines", 0): 0}
    assert [decode(AckFrame, one.value).begins for one in transact.records] == [True]


def test_a_task_that_leaves_before_it_knows_its_position_leaves_at_once() -> None:
    """It has nothing to write."""
    spout, made = spouts()
    spout.knows = False
    made.assign(t0=0)
    emit(made)
    made.do(made.engine.revoked([0], made.now))
    assert (made.take(Transact), made.take(Release)) == ([], [Release(0)])


def idle_spouts() -> Driven:
    """Returns two tasks of a spout that know no position, and for which no window waits."""
    spout = Words()
    spout.knows = False
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=EXACTLY_ONCE))
    builder.set_spout("words", spout, 2)
    windows = WindowedBolt().with_tumbling_window(Duration.seconds(1))
    windows.with_timestamp_field("word").with_idle_timeout(Duration.seconds(1))
    builder.set_bolt("windows", windows).shuffle_grouping("words")
    made = Driven(exact_spout_engine(builder.build(), "words"))
    made.assign(t0=0, t1=0)
    for _ in range(4):
        made.now += 1.0
        emit(made)
    return made


def test_tasks_without_a_position_only_report_that_they_are_idle() -> None:
    """Kafka does not fence this transaction. It would be the same from their next owner."""
    made = idle_spouts()
    (transact,) = made.take(Transact)
    (record,) = transact.records
    frame = decode(TupleFrame, record.value)
    assert (transact.positions, record.topic, frame.count) == ({}, "t.windows", 0)
    assert frame.marks == {1: Mark(NEVER, idle=True), 2: Mark(NEVER, idle=True)}


def test_a_task_does_not_wait_for_the_watermark_of_another_one_that_leaves() -> None:
    """The watermark was due when the first task began to leave, and the other one has left since."""
    made = idle_spouts()
    (transact,) = made.take(Transact)
    made.now += 10
    made.do(made.engine.revoked([0], made.now))
    made.do(made.engine.revoked([1], made.now))
    answer(made, transact)
    assert made.take(Release) == [Release(0), Release(1)]


def test_task_that_leaves_early_does_not_announce_its_run() -> None:
    """A late record would end the trees of the task's next owner (the simulation's seed 209315)."""
    _, made = spouts()
    made.assign(t0=0)
    answer(made, made.take(Transact)[0])
    outbox = made.engine.outbox  # type: ignore[attr-defined]
    for waits in (
        False,
        True,
    ):  # its position is known the second time, so no epoch is needed
        if waits:
            made.assign(t0=0)
        assert outbox.has_acks is waits
        made.do(made.engine.revoked([0], made.now))
        assert made.take(Release) == [Release(0)]
        assert not outbox.has_acks


def test_late_trees_are_reported_with_their_messages() -> None:
    """The report includes their pending slots, because only the end of a tree frees its slot."""
    builder = TopologyBuilder(
        "t",
        Config(
            topology_processing_guarantee=EXACTLY_ONCE,
            topology_message_timeout_secs=30,
            topology_max_spout_pending=20,
        ),
    )
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", Bolt()).shuffle_grouping("words")
    journal = Journal()
    made = Driven(exact_spout_engine(builder.build(), "words", journal))
    made.assign(t0=0)
    made.do(made.engine.emit(0.0))  # type: ignore[attr-defined]
    made.tick(46)
    ((said, doing),) = journal.errors
    assert doing == "waiting for acks"
    assert said.startswith("20 trees have been open for longer than topology_message_timeout_secs")
    assert "those of the messages 1, 2, 3, 4, 5. They take 20 of 20 places" in said
