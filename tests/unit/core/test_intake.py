"""The limit for the records in hand."""

import pytest

from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import RunUserCode, Send
from kstorm.core.engine.intake import Intake
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


def test_polls_are_executed_one_by_one_in_their_order() -> None:
    builder = TopologyBuilder("t", Config(topology_acker_executors=0))
    builder.set_spout("words", Numbers())
    builder.set_bolt("sink", Sink()).shuffle_grouping("words")
    bolt = Driven(bolt_engine(builder.build(), "sink"))
    bolt.assign(t0=0)
    engine = bolt.engine

    def arrive(record: InputRecord) -> list[object]:
        return list(engine.arrived([(engine.tenures[0], [record])], 0.0))

    (first,) = arrive(frame(0, "a"))
    assert isinstance(first, RunUserCode)
    assert arrive(frame(1, "b")) == []
    assert arrive(frame(2, "c")) == []
    bolt.do([first])
    assert engine.frames_in == 3
    assert engine.tenures[0].progress.finished == 3
