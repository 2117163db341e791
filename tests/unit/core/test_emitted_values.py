"""A tuple keeps its values, although its component may change the emitted list later."""

from typing import Any

import pytest

from kstorm.core.wire import TupleFrame, decode
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    Tuple,
    TupleBatch,
)
from tests.unit.core.bolt_harness import Basic, Plain
from tests.unit.core.bolt_harness import Harness as BoltHarness
from tests.unit.core.exact_harness import ExactHarness
from tests.unit.core.spout_harness import Harness as SpoutHarness


def columns(outbox: Any) -> list[list[Any]]:
    """Returns the emitted words, by frame."""
    frames = [decode(TupleFrame, send.value) for send in outbox.drain_tuples()]
    return [frame.columns[0] for frame in frames]


class Emits:
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class ReusesItsList(Emits, Bolt):
    """Emits one list again and again."""

    def __init__(self) -> None:
        self.values: list[Any] = [None]

    def execute(self, tuple: Tuple) -> None:
        self.values[0] = tuple["word"]
        self.collector.emit(self.values, tuple)
        self.collector.ack(tuple)


class BasicReusesItsList(Emits, BasicBolt):
    def __init__(self) -> None:
        self.values: list[Any] = [None]

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.values[0] = tuple["word"]
        collector.emit(self.values)


class ClearsItsColumns(Emits, Bolt):
    """Emits columns and clears them."""

    def execute_batch(self, batch: TupleBatch) -> None:
        words = list(batch["word"])
        self.collector.emit_batch([words], batch)
        words.clear()
        self.collector.ack_batch(batch)


@pytest.mark.parametrize("bolt", [ReusesItsList, BasicReusesItsList, ClearsItsColumns])
def test_bolts_emit_copies_exactly_once(bolt: Any) -> None:
    harness = ExactHarness(bolt())
    harness.give(0, "a", "b", "c")
    assert columns(harness.outbox) == [["a", "b", "c"]]


@pytest.mark.parametrize("kind", [Plain, Basic])
@pytest.mark.parametrize("more", [None, {0: {9: 9}}], ids=["one tree", "two trees"])
def test_bolts_emit_copies_at_least_once(kind: Any, more: Any) -> None:
    bolt, values = kind(), [None]

    def do(tuple: Tuple, collector: Any = None) -> None:
        values[0] = tuple["word"]
        if collector is None:
            harness.collector.emit(values, tuple, stream="errors")
        else:
            collector.emit(values, "errors")

    bolt.do = do
    harness = BoltHarness(bolt)
    harness.give(("a", 1, 1), ("b", 2, 2), more=more)
    assert columns(harness.outbox) == [["a", "b"]]


def test_spouts_emit_copies() -> None:
    harness, values, told = SpoutHarness(), ["a"], list[Any]()
    harness.next_tuple(lambda: told.extend(harness.emit(values, message_id=1)))
    values[0] = "b"
    harness.next_tuple(lambda: told.extend(harness.emit(values, message_id=2)))
    words = ["c", "d"]
    harness.next_tuple(lambda: told.extend(harness.task.collector.emit_batch([words], [3, 4])))
    words.clear()
    values.clear()
    sends = [send for send in harness.outbox.drain_tuples() if send.topic == "t.sink"]
    words = [word for send in sends for word in decode(TupleFrame, send.value).columns[0]]
    assert words == ["a", "b", "c", "d"]
