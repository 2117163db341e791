"""The producer's callback: one call per record, with the record's offset or error, and the tuple."""

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message

from kstorm.errors import BrokerError
from kstorm.kafka import KAFKA, KafkaBolt, ProducerCallback, RecordMetadata
from kstorm.topology import Config, TopologyContext, Tuple, TupleBatch
from tests.unit.kafka.test_kafka_bolt import Outcomes, context, prepared, tup

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


class Told(ProducerCallback):
    """Records its calls, and the bolt's progress at each one."""

    def __init__(self) -> None:
        self.ends: list[tuple[RecordMetadata | None, str | None, Tuple]] = []
        self.settled: list[int] = []
        self.task = -1
        self.outcomes: Outcomes | None = None
        self.raises: Exception | None = None

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self.task = context.task_index

    def on_completion(
        self, metadata: RecordMetadata | None, error: BrokerError | None, tuple: Tuple
    ) -> None:
        self.ends.append((metadata, None if error is None else str(error), tuple))
        if self.outcomes is not None:
            self.settled.append(len(self.outcomes.acked) + len(self.outcomes.failed))
        if self.raises is not None:
            raise self.raises


def record(offset: int = 7) -> Any:
    """Builds a record as librdkafka reports it."""
    return Message("t", 2, offset, b"k", b"m", timestamp=(1, 1_700_000_000_000))


async def test_callback_gets_the_result_of_each_record(world: "World") -> None:
    """The call follows the tuple's ack or fail, as in Storm."""
    told = Told()
    bolt = KafkaBolt().with_topic_selector("t").with_producer_callback(told)
    told.outcomes = outcomes = prepared(world, bolt)
    tuples = [tup(), tup()]
    assert bolt.execute_batch(TupleBatch(tup().source, [["k"], ["m"], ["t"]])) is NotImplemented
    for each in tuples:
        bolt.execute(each)
    assert told.ends == []
    world.writer.records[0][-1](None, record())
    world.writer.records[1][-1]("timed out", None)
    assert told.task == 0
    assert told.ends == [
        (RecordMetadata("t", 2, 7, 1_700_000_000_000), None, tuples[0]),
        (None, "timed out", tuples[1]),
    ]
    assert told.settled == [1, 2]
    assert (outcomes.acked, outcomes.failed) == ([tuples[0]], [tuples[1]])


@pytest.mark.parametrize("mode", ["sync", "fire and forget"])
async def test_callback_is_called_in_every_mode(world: "World", mode: str) -> None:
    """This includes tuples that are acked earlier, and synchronous writes, as in Storm."""
    told = Told()
    bolt = KafkaBolt().with_topic_selector("t").with_producer_callback(told)
    bolt = bolt.with_async(False) if mode == "sync" else bolt.with_fire_and_forget()
    prepared(world, bolt)
    tuple = tup()
    executing = bolt.execute(tuple)
    waiting = None if executing is None else asyncio.ensure_future(executing)
    await asyncio.sleep(0)
    world.writer.records[0][-1](None, record(-1001))
    assert told.ends == [(RecordMetadata("t", 2, -1, 1_700_000_000_000), None, tuple)]
    if waiting is not None:
        await waiting


async def test_exception_of_the_callback_changes_nothing(world: "World") -> None:
    """It is reported. The tuple is acked once."""
    told = Told()
    told.raises = ValueError("in the callback")
    bolt = KafkaBolt().with_topic_selector("t").with_producer_callback(told)
    outcomes = prepared(world, bolt)
    bolt.execute(tup())
    world.writer.records[0][-1](None, record())
    assert (len(outcomes.acked), outcomes.failed) == (1, [])
    assert outcomes.errors == [told.raises]


async def test_callback_gets_a_record_that_cannot_be_queued(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception fails the tuple."""
    told = Told()
    bolt = KafkaBolt().with_topic_selector("t").with_producer_callback(told)
    prepared(world, bolt)

    def refuse(*_: Any) -> None:
        raise BrokerError("the queue is full")

    monkeypatch.setattr(world.writer, "write", refuse)
    tuple = tup()
    with pytest.raises(BrokerError, match="the queue is full"):
        bolt.execute(tuple)
    assert told.ends == [(None, "the queue is full", tuple)]


def test_each_task_has_a_producer_that_reports_and_a_callback_of_its_own(world: "World") -> None:
    """A producer that reports only failures gives no offsets, so the bolt overrides that property."""
    template = KafkaBolt().with_topic_selector("t").with_producer_callback(Told())
    template = template.with_producer_properties({"linger.ms": 1})
    made = copy.deepcopy(template)
    made.prepare(Config(), context(template, {KAFKA: world.ports}), Outcomes())
    assert world.own_writers == [{"linger.ms": 1, "delivery.report.only.error": False}]
    original, own = template._callback, made._callback
    assert isinstance(original, Told)
    assert isinstance(own, Told)
    assert (original.task, own.task) == (-1, 0)
