"""Watermarks of partitions and spouts, their combination in a bolt, and the times of their sends."""

from typing import Any

import msgspec
import pytest

from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import Send
from kstorm.core.watermarks import RESEND_SECS, Idleness, MarkSender, Prefix, SpoutTimes, TaskMarks
from kstorm.core.wire import FIRST, VERSION, TupleFrame, decode, encode, pack_ids
from kstorm.errors import FrameError
from kstorm.testing import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    TopologyBuilder,
    Tuple,
    TupleBatch,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from kstorm.topology.event_time import NEVER, UNKNOWN, EventTime, Mark, TimePlan, lowest
from kstorm.windows import Duration, TupleWindow, WindowedBolt
from tests.unit.core.engines import Driven, bolt_engine, exact_bolt_engine


class Pass(BasicBolt):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, int]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Pass":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("at")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.seen.append((tuple["at"], tuple.source_task))
        collector.emit([tuple["at"]])


class Windows(WindowedBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("at")

    def execute(self, window: TupleWindow) -> None:
        self.collector.emit([window.end_timestamp])


class Clicks(FeederSpout):
    """Emits with its own event time."""

    def event_time(self) -> EventTime:
        return EventTime("at")


def windows(field: str = "at") -> WindowedBolt:
    return Windows().with_tumbling_window(Duration(10)).with_timestamp_field(field)


def chain(spout: FeederSpout, bolt: Any = None, **settings: Any) -> TopologyBuilder:
    """Builds a spout of two tasks, a bolt, and windows of two tasks."""
    builder = TopologyBuilder("t", Config(topology_acker_tasks=1, **settings))
    builder.set_spout("clicks", spout, 2)
    builder.set_bolt("pass", bolt or Pass(), 2).shuffle_grouping("clicks")
    builder.set_bolt("windows", windows(), 2).shuffle_grouping("pass")
    return builder


# Computed.


def test_a_partition_has_the_latest_time_before_an_offset() -> None:
    """It excludes later messages, and includes the stored time of an earlier run."""
    times = Prefix(reached=5)
    assert times.before(0) == 5
    times.emitted(10, 100)
    times.emitted(20, 90)
    times.emitted(30, 130)
    assert [times.before(offset) for offset in (9, 10, 29, 30, 99)] == [5, 100, 100, 130, 130]
    times.forget(15)
    assert [times.before(offset) for offset in (15, 30)] == [100, 130]
    assert times.latest == 130


def test_idle_time_counts_in_small_steps() -> None:
    """A jump of the clock or a paused process makes no input idle."""
    idleness = Idleness(after_ms=8000)
    assert not idleness.look(100.0, empty=True)
    assert not idleness.look(9999.0, empty=True)
    assert not idleness.look(50.0, empty=True)
    assert not idleness.look(52.0, empty=True)
    assert idleness.look(54.0, empty=True)
    assert not idleness.look(55.0, empty=False)
    assert not idleness.look(58.0, empty=True)
    assert not Idleness(None).look(1e9, empty=True)


def spout_times(*, holds: bool, idle: int | None = None) -> SpoutTimes:
    time = EventTime("at", idle)
    return SpoutTimes(
        time, lambda stream: time.latest("s", stream, 1, Fields("at")), holds=holds, patience=30.0
    )


def test_a_spout_holds_time_back_for_what_it_may_emit_again() -> None:
    """The mark waits for messages in flight and for failed ones, but not for messages given up."""
    times = spout_times(holds=True)
    assert times.mark(0.0, empty=True) == UNKNOWN
    times.emitted("default", [[100]], [1], ["a"])
    assert times.mark(0.0, empty=False).at == NEVER, "the first one is in flight"
    times.ended(1)
    times.emitted("default", [[200]], [2], ["b"])
    times.emitted("default", [[300]], [3], ["c"])
    times.ended(3)
    assert times.mark(0.0, empty=False) == Mark(100)
    times.failed(2, "b", 0.0)
    assert times.mark(1.0, empty=True) == Mark(100)
    times.emitted("default", [[200]], [4], ["b"])
    assert times.mark(2.0, empty=True) == Mark(100)
    times.failed(4, "b", 2.0)
    assert times.mark(33.0, empty=True) == Mark(300)


def test_a_spout_holds_time_back_for_a_message_that_could_not_be_emitted() -> None:
    """The spout's author may emit it later, in another form."""
    times = spout_times(holds=True)
    times.emitted("default", [[100]], (), ())
    times.refused("a", 0.0)
    times.emitted("default", [[300]], (), ())
    assert times.mark(1.0, empty=True) == Mark(100)
    times.refused("a", 1.0)
    assert times.mark(2.0, empty=True) == Mark(100), "refused again"
    times.emitted("default", [[200]], [1], ["a"])
    times.ended(1)
    assert times.mark(3.0, empty=True) == Mark(300)
    times.refused("b", 3.0)
    assert times.mark(34.0, empty=True) == Mark(300), "given up"


def test_a_message_id_that_cannot_be_a_key_is_held_for_the_whole_timeout() -> None:
    times = spout_times(holds=True)
    times.emitted("default", [[100]], [1], [["a", "list"]])
    times.failed(1, ["a", "list"], 0.0)
    assert times.mark(29.0, empty=True) == UNKNOWN
    assert times.mark(31.0, empty=True) == Mark(100)


def test_a_spout_that_repeats_nothing_waits_for_nothing() -> None:
    """Its tuples and its position are committed together. Invalid times are ignored."""
    times = spout_times(holds=False)
    times.refused("a", 0.0)
    times.emitted("default", [[100], ["noon"], [True], [None]], [1, 2, 3, 4], [None] * 4)
    assert times.mark(0.0, empty=False) == Mark(100)


def test_a_function_may_find_the_time() -> None:
    """If it raises, the tuple has no time."""
    latest = EventTime(lambda tuple: tuple["at"] * 2).latest("s", "default", 1, Fields("at"))
    assert latest([[1], [7], [None], [3]]) == 14
    assert EventTime("at").latest("s", "default", 1, Fields("other"))([[1]]) == NEVER


# Combined.


def test_the_lowest_counts_and_idle_ones_do_not() -> None:
    """If all are idle, the mark is idle too."""
    assert lowest([Mark(5), Mark(3), Mark(1, idle=True)]) == Mark(3)
    assert lowest([Mark(5, idle=True), Mark(3, idle=True)]) == Mark(5, idle=True)
    assert lowest([Mark(5), UNKNOWN]) == UNKNOWN
    assert lowest([]) == Mark(NEVER, idle=True)


def frame_of(marks: dict[int, Mark]) -> TupleFrame:
    return TupleFrame(VERSION, "clicks", 1, "default", 0, b"", b"", {}, [[]], marks=marks)


def test_a_bolt_combines_all_tasks_of_its_inputs() -> None:
    """It waits for a task that has sent nothing, and ignores marks of unknown tasks."""
    topology = chain(Clicks("at")).build()
    marks = TaskMarks(topology, TimePlan(topology), "pass", Pass())
    marks.arrived(frame_of({1: Mark(50), 99: Mark(1)}), 0)
    marks.apply()
    assert marks.mark == UNKNOWN
    marks.arrived(frame_of({2: Mark(20)}), 1)
    marks.apply()
    assert marks.mark == Mark(20)


def test_a_watermark_counts_when_the_tuples_before_it_are_finished() -> None:
    topology = chain(Clicks("at")).build()
    marks = TaskMarks(topology, TimePlan(topology), "pass", Pass())
    for offset, at in ((1, 10), (4, 20), (7, 30)):
        marks.arrived(frame_of({1: Mark(at), 2: Mark(at)}), offset)
    marks.apply(4)
    assert marks.mark == Mark(10)
    marks.apply(5)
    assert marks.mark == Mark(20)
    marks.apply()
    assert marks.mark == Mark(30)


# Participants.


def test_watermarks_go_to_windows_and_to_bolts_on_the_way_there() -> None:
    builder = chain(Clicks("at"))
    builder.set_bolt("sink", Pass()).shuffle_grouping("clicks")
    builder.set_bolt("behind", windows()).shuffle_grouping("windows")
    builder.set_bolt("end", Pass()).shuffle_grouping("behind")
    plan = TimePlan(builder.build())
    assert plan.targets("clicks") == ["pass"]
    assert plan.targets("pass") == ["windows"]
    assert plan.targets("windows") == ["behind"]
    assert plan.targets("behind") == []
    assert {name: list(tasks) for name, tasks in plan.inputs("pass").items()} == {"clicks": [1, 2]}


def test_a_spout_takes_its_time_from_the_windows_that_subscribe_to_it() -> None:
    """It applies to these windows only, because a bolt in between may change the field."""
    builder = chain(FeederSpout("at", "ts"))
    plan = TimePlan(builder.build())
    assert (plan.spouts, plan.targets("clicks"), plan.targets("pass")) == ({}, [], [])
    bolt = windows().with_idle_timeout(Duration(7000))
    builder.set_bolt("direct", bolt).shuffle_grouping("clicks")
    plan = TimePlan(builder.build())
    assert plan.spouts == {"clicks": EventTime("at", 7000)}
    assert (plan.targets("clicks"), plan.targets("pass")) == (["direct"], [])
    builder.set_bolt("other", windows("ts")).shuffle_grouping("clicks")
    assert TimePlan(builder.build()).spouts == {}, "two times"


def test_without_event_time_nothing_is_sent() -> None:
    builder = TopologyBuilder("t", Config(topology_acker_tasks=1))
    builder.set_spout("clicks", Clicks("at"))
    builder.set_bolt("pass", Pass()).shuffle_grouping("clicks")
    builder.set_bolt("by-clock", Windows().with_tumbling_window(Duration(10))).shuffle_grouping(
        "pass"
    )
    topology = builder.build()
    plan = TimePlan(topology)
    assert plan.spouts == {}
    assert not MarkSender(topology, plan, "clicks").sends
    assert not MarkSender(topology, plan, "pass").sends


# Sent.


def test_when_it_is_sent() -> None:
    """A changed watermark is sent at most once per interval.

    It is repeated for restarted consumers.
    """
    topology = chain(Clicks("at")).build()
    sender = MarkSender(topology, TimePlan(topology), "pass")
    assert not sender.due({}, 0.0)
    assert sender.due({3: Mark(5)}, 1.0)
    records = sender.frames({3: Mark(5)}, 1.0, "pass-0")
    assert [(record.topic, record.partition) for record in records] == [
        ("t.windows", 0),
        ("t.windows", 1),
    ]
    found = decode(TupleFrame, records[0].value)
    assert (found.count, found.columns, found.marks) == (0, [[]], {3: Mark(5)})
    assert not sender.due({3: Mark(6)}, 1.1)
    assert sender.due({3: Mark(6)}, 1.1, at_once=True)
    assert sender.due({3: Mark(6)}, 1.3)
    assert not sender.due({3: Mark(5)}, 1.3)
    assert sender.due({3: Mark(5)}, 1.0 + RESEND_SECS)


def test_an_idle_process_rarely_computes_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any number of calls of `due`."""
    engine, looks = bolt_engine(chain(Clicks("at")).build(), "pass"), []

    def marks() -> dict[int, Mark]:
        looks.append(engine.now)
        return {}

    monkeypatch.setattr(engine.time, "marks", marks)
    for millisecond in range(1000):
        engine.now = millisecond / 1000
        assert not engine.time.is_due
    assert len(looks) == 5


def test_a_bolt_passes_the_watermark_on_behind_its_tuples() -> None:
    """The watermark follows the tuples of the same poll, also to tasks without tuples."""
    driven = Driven(bolt_engine(chain(Clicks("at")).build(), "pass"))
    driven.assign(t0=0)
    data = TupleFrame(FIRST, "clicks", 1, "default", 1, bytes(8), bytes(8), {}, [[7]])
    marks = frame_of({1: Mark(50), 2: Mark(20)})
    driven.poll(0, InputRecord(0, encode(data)), InputRecord(1, encode(marks)))
    found = [
        (record.partition, frame.columns, frame.marks)
        for send in driven.take(Send)
        for record in send.records
        if record.topic == "t.windows"
        for frame in [decode(TupleFrame, record.value)]
    ]
    mine = {3: Mark(20)}
    assert found == [(found[0][0], [[7]], {}), (0, [[]], mine), (1, [[]], mine)]


# Format 2.


def test_a_frame_may_have_tuples_of_several_tasks() -> None:
    """With format 2, each tuple has its own source task."""
    bolt = Pass()
    driven = Driven(bolt_engine(chain(Clicks("at"), bolt).build(), "pass"))
    driven.assign(t0=0)
    ids = pack_ids([0, 0, 0])
    data = TupleFrame(
        VERSION, "clicks", 1, "default", 3, ids, ids, {}, [[7, 8, 9]], runs=[(2, 1), (1, 2)]
    )
    driven.poll(0, InputRecord(0, encode(data)))
    assert bolt.seen == [(7, 2), (8, 1), (9, 1)]


class Seen(BasicBolt):
    """Takes batches, and records the source of each tuple and of the batch."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.of_batches: list[int] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Seen":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("at")

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        self.of_batches.append(batch.source.task)
        self.seen += zip(batch["at"], batch.source_tasks, strict=True)


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
@pytest.mark.parametrize("runs", [[(2, 1), (1, 2)], []])
def test_a_batch_names_the_task_of_each_tuple(guarantee: str, runs: list[tuple[int, int]]) -> None:
    """The batch itself has a task only if it has just one."""
    bolt = Seen()
    topology = chain(Clicks("at"), bolt, topology_processing_guarantee=guarantee).build()
    make = exact_bolt_engine if guarantee == EXACTLY_ONCE else bolt_engine
    driven = Driven(make(topology, "pass"))
    driven.assign(t0=0)
    ids = pack_ids([0, 0, 0])
    data = TupleFrame(VERSION, "clicks", 1, "default", 3, ids, ids, {}, [[7, 8, 9]], runs=runs)
    driven.poll(0, InputRecord(0, encode(data)))
    assert bolt.seen == ([(7, 2), (8, 1), (9, 1)] if runs else [(7, 1), (8, 1), (9, 1)])
    assert bolt.of_batches == [-1 if runs else 1]


@pytest.mark.parametrize(
    ("form", "runs"), [(FIRST, [(1, 2)]), (VERSION, [(1, 1)]), (VERSION, [(1, 3), (2, -1)])]
)
def test_wrong_runs_are_refused(form: int, runs: list[tuple[int, int]]) -> None:
    data = TupleFrame(form, "clicks", 1, "default", 2, b"", b"", {}, [[7, 8]], runs=runs)
    with pytest.raises(FrameError):
        decode(TupleFrame, encode(data))


def test_invalid_watermark_is_refused() -> None:
    """An infinite watermark would close all windows forever."""
    with pytest.raises(FrameError, match="cannot be a time"):
        decode(TupleFrame, encode(frame_of({1: Mark(2**61)})))


def test_an_older_process_reads_a_frame_with_watermarks_as_an_empty_one() -> None:
    """It ignores unknown fields at the end, so its format may have them."""
    topology = chain(Clicks("at"), topology_frame_format=FIRST).build()
    sender = MarkSender(topology, TimePlan(topology), "clicks")
    (record, _) = sender.frames({1: Mark(5)}, 0.0, "")
    found = msgspec.msgpack.decode(record.value)
    assert found[:9] == [1, "clicks", 1, "default", 0, b"", b"", {}, [[]]]
