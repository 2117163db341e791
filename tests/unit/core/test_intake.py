"""The limit for the records in hand."""

import pytest

from kstorm.core.engine import Effect, InputRecord
from kstorm.core.engine.effects import RunUserCode, Send
from kstorm.core.engine.intake import Intake, gathering_secs
from kstorm.core.engine.polls import MOST_FRAMES
from kstorm.topology import Bolt, Config, TopologyBuilder
from tests.unit.core.engines import Driven, bolt_engine, frame
from tests.unit.core.test_spout_engine import Numbers


def test_intake_is_full_from_its_high_mark_to_its_low_mark() -> None:
    intake = Intake(high=(4, 1000), low=(1, 100))
    units = [intake.take(2, 10) for _ in range(2)]
    assert not intake.full
    units.append(intake.take(1, 10))
    assert intake.full
    units.pop().close()
    units.pop().close()
    assert (intake.records, intake.full) == (2, True)
    units.pop().close()
    assert (intake.records, intake.bytes, intake.full) == (0, 0, False)


@pytest.mark.parametrize("records", [0, 1])
def test_intake_is_also_limited_by_bytes(records: int) -> None:
    intake = Intake(high=(4, 1000), low=(1, 100))
    first, second = intake.take(1, 950), intake.take(records, 60)
    assert intake.full
    second.close()
    assert (intake.bytes, intake.full) == (950, True)
    first.close()
    assert not intake.full


class Sink(Bolt):
    def execute(self, tuple: object) -> None:
        self.collector.emit(["on"])

    def declare_output_fields(self, declarer: object) -> None:
        declarer.declare("word")  # type: ignore[attr-defined]


def test_record_is_in_hand_until_its_results_have_arrived() -> None:
    builder = TopologyBuilder("t", Config(topology_acker_executors=0))
    builder.set_spout("words", Numbers())
    builder.set_bolt("sink", Sink()).shuffle_grouping("words")
    builder.set_bolt("end", Sink()).shuffle_grouping("sink")
    bolt = Driven(bolt_engine(builder.build(), "sink"))
    bolt.assign(t0=0)
    engine, records = bolt.engine, [frame(0, "a"), frame(1, "b")]
    effects = engine.arrived([(engine.tenures[0], records)], 0.0)
    size = sum(len(record.value or b"") for record in records)
    assert (engine.intake.records, engine.intake.bytes) == (2, size)
    bolt.do(effects)
    assert bolt.take(Send)
    assert engine.intake.records == 2
    bolt.deliver()
    assert (engine.intake.records, engine.intake.bytes) == (0, 0)


def sink_of(tasks: int) -> Driven:
    builder = TopologyBuilder("t", Config(topology_acker_executors=0))
    builder.set_spout("words", Numbers())
    builder.set_bolt("sink", Sink()).set_num_tasks(tasks).shuffle_grouping("words")
    builder.set_bolt("end", Sink()).shuffle_grouping("sink")
    bolt = Driven(bolt_engine(builder.build(), "sink"))
    bolt.assign(**{f"t{task}": 0 for task in range(tasks)})
    return bolt


def arrive(bolt: Driven, task: int, *records: InputRecord) -> list[Effect]:
    engine = bolt.engine
    return engine.arrived([(engine.tenures[task], records)], bolt.now)


def test_polls_that_wait_are_executed_together() -> None:
    """Results are sent once per job: the fewer jobs, the fewer frames."""
    bolt = sink_of(2)
    engine = bolt.engine
    (first,) = arrive(bolt, 0, frame(0, "a"))
    assert arrive(bolt, 1, frame(0, "b")) == []
    assert arrive(bolt, 0, frame(1, "c")) == []
    assert arrive(bolt, 1, frame(1, "d"), frame(2, "e")) == []
    bolt.do([first])
    assert engine.frames_in == 5
    assert len(bolt.take(Send)) == 2
    assert engine.intake.records == 5, "no result has arrived yet"
    bolt.deliver()
    assert [engine.tenures[task].progress.finished for task in (0, 1)] == [2, 3]
    assert engine.intake.records == 0


def test_a_full_job_takes_no_more_polls() -> None:
    bolt = sink_of(1)
    (first,) = arrive(bolt, 0, frame(0, "a"))
    arrive(bolt, 0, *(frame(offset, "b") for offset in range(1, 1 + MOST_FRAMES)))
    arrive(bolt, 0, frame(1 + MOST_FRAMES, "c"))
    bolt.do([first])
    assert len(bolt.take(Send)) == 3
    assert bolt.engine.frames_in == 2 + MOST_FRAMES


def begin_slowly(bolt: Driven) -> RunUserCode:
    """Start a poll of three frames that takes long: its first frame takes a second."""
    (run,) = arrive(bolt, 0, *(frame(offset, "a") for offset in range(3)))
    assert isinstance(run, RunUserCode)
    next(run.steps)  # the first frame has been executed
    bolt.tick(1)
    with pytest.raises(StopIteration):
        next(run.steps)
    return run


def test_results_of_a_slow_bolt_do_not_wait_for_the_rest_of_its_poll() -> None:
    bolt = sink_of(1)
    run = begin_slowly(bolt)
    (results, rest) = bolt.engine.ran(run, bolt.now)
    assert isinstance(results, Send)
    bolt.do([results, rest])
    assert bolt.engine.frames_in == 3
    assert bolt.engine.intake.records == 3
    bolt.deliver()
    assert bolt.engine.intake.records == 0


def test_the_rest_of_a_poll_is_executed_before_later_polls() -> None:
    """A task's offsets are committed in order. Otherwise a crash would lose the rest."""
    bolt = sink_of(1)
    run = begin_slowly(bolt)
    arrive(bolt, 0, frame(3, "later"))
    (results, rest) = bolt.engine.ran(run, bolt.now)
    bolt.do([results])
    assert isinstance(rest, RunUserCode)
    next(rest.steps)
    with pytest.raises(StopIteration):
        next(rest.steps)
    bolt.do(bolt.engine.ran(rest, bolt.now)[:1])
    bolt.deliver()
    assert bolt.engine.tenures[0].progress.finished == 3


@pytest.mark.parametrize(
    ("records", "size", "targets", "secs"),
    [
        (1, 0, 12, 0.001),
        (2, 1000, 12, 0.005),
        (1000, 0, 12, 0.02),
        (1, 100_000, 12, 0.05),
        (1, 100_000, 64, 0.05),
        (1, 100_000, 1, 0.0225),
    ],
    ids=["one small record", "a few", "many records", "much data", "64 targets", "one target"],
)
def test_the_more_input_the_longer_a_poll_gathers(
    records: int, size: int, targets: int, secs: float
) -> None:
    assert gathering_secs(records, size, targets) == pytest.approx(secs)
