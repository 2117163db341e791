"""With exactly once, a record that no transaction can hold fails only its own tuple."""

from typing import Any

import pytest

from kstorm.core.record_size import MAX_RECORD_BYTES
from kstorm.errors import BrokerError
from kstorm.kafka import FieldNameBasedTupleToKafkaMapper, KafkaBolt
from kstorm.kafka.epoch_writer import EpochWriter
from kstorm.kafka.ports import KAFKA, KafkaPorts
from kstorm.topology import Config, OutputCollector, OutputFieldsDeclarer, TopologyContext
from tests.unit.core.exact_harness import ExactHarness

LONG = "x" * MAX_RECORD_BYTES


class Sink(KafkaBolt):
    """Writes words. `open` prepares it with its task."""

    def __init__(self) -> None:
        super().__init__()
        self.with_topic_selector("counts").with_tuple_to_kafka_mapper(
            FieldNameBasedTupleToKafkaMapper("key", "word")
        )

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        self._given = (config, context, collector)

    def open(self, writer: EpochWriter) -> None:
        config, context, collector = self._given
        nobody: Any = None
        ports = KafkaPorts(nobody, nobody, lambda: writer, nobody)
        super().prepare(
            config, TopologyContext(context.topology, "bolt", 0, {KAFKA: ports}), collector
        )


def harness(**settings: Any) -> ExactHarness:
    sink = Sink()
    made = ExactHarness(sink, **settings)
    sink.open(EpochWriter(made.task))
    return made


def words(made: ExactHarness) -> list[str]:
    """Returns the values written since the last call."""
    found = made.written()
    assert {record.task for record in found} <= {made.task.task_id}
    return [
        record.value if isinstance(record.value, str) else record.value.decode() for record in found
    ]


def test_a_record_that_is_too_large_fails_its_tuple_alone() -> None:
    """Its neighbours are written once. The tuple is retried, and becomes a dead letter in the end."""
    made = harness(topology_bolt_retry_limit=1)
    made.give(0, "a", LONG, "b")
    assert words(made) == ["a", "b"]
    (left,) = made.left()[0] or []
    assert (left.row, left.attempts, left.waits) == (1, 1, True)
    made.retry(60)
    assert words(made) == []
    (letter,) = [waiting.letter for waiting in made.outbox.letters]
    assert (
        "failed 2 times: BrokerError: a record for topic 'counts' cannot be written: it has 16,7"
        in letter.reason
    )
    assert made.left() == {0: None}
    assert "the limit is 16,777,216" in made.errors[0]


def test_oversized_record_raises_at_once() -> None:
    """The rejected record is not kept."""
    made = harness()
    writer = EpochWriter(made.task)
    delivered: list[Any] = []
    with pytest.raises(BrokerError, match="'counts' cannot be written: it has"):
        writer.write("counts", b"k", b"v", lambda *told: delivered.append(told), [("name", LONG)])
    writer.write_batch("counts", ["k", LONG], ["v", "v"], delivered.append)
    assert len(delivered) == len(delivered[0]) == 1
    assert words(made) == []
    writer.write_batch("counts", ["k", "l"], ["v", "w"], delivered.append, [[("name", "1")], []])
    assert (delivered[1], words(made)) == ([], ["v", "w"])
