"""The values of a tuple are a list or a similar sequence.

Python can also iterate over text, bytes, dicts and sets. Their characters, keys or unordered
elements are not values.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kstorm.errors import EmitError
from kstorm.testing import FeederSpout, LocalCluster, TupleCaptureBolt
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    Spout,
    TopologyBuilder,
    Tuple,
)
from kstorm.trident import Function, TridentCollector, TridentTopology, TridentTuple

EVIL: list[Callable[[], Any]] = [
    lambda: "ab",
    lambda: b"ab",
    lambda: bytearray(b"ab"),
    lambda: {"a": 1, "b": 2},
    lambda: {"a", "b"},
    lambda: None,
    lambda: 7,
    lambda: iter("ab"),
]
GUARANTEES = ["at_least_once", "exactly_once"]


class Pair(NamedTuple):
    one: str
    two: str


class Emits(Bolt):
    make: Callable[[], Any]

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("one", "two")

    def execute(self, tuple: Tuple) -> None:
        self.collector.emit(self.make(), tuple)
        self.collector.ack(tuple)


class EmitsBasic(BasicBolt):
    make: Callable[[], Any]

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("one", "two")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(self.make())


class EmitsColumns(Emits):
    def execute(self, tuple: Tuple) -> None:
        self.collector.emit_batch([self.make(), self.make()])
        self.collector.ack(tuple)


def outcome(bolt: Any, guarantee: str) -> tuple[list[list[Any]], list[BaseException]]:
    """Return what a bolt emits, and the errors of its task."""
    config = Config(topology_processing_guarantee=guarantee, topology_bolt_retry_limit=0)
    builder, feeder = TopologyBuilder("t", config), FeederSpout("x")
    builder.set_spout("s", feeder)
    builder.set_bolt("b", bolt).shuffle_grouping("s")
    builder.set_bolt("capture", TupleCaptureBolt()).shuffle_grouping("b")
    with LocalCluster(builder.build()) as cluster:
        feeder.feed([1], 1)
        cluster.run_until_idle()
        return cluster.emitted("b"), [each.error for each in cluster.errors]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("kind", [Emits, EmitsBasic, EmitsColumns])
@pytest.mark.parametrize("make", EVIL)
def test_a_bolt_cannot_emit_them(make: Any, kind: type[Any], guarantee: str) -> None:
    bolt = kind()
    bolt.make = make
    emitted, errors = outcome(bolt, guarantee)
    assert emitted == []
    assert isinstance(errors[0], EmitError)
    assert f"which is of type {type(make()).__name__}" in str(errors[0])


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("kind", [Emits, EmitsBasic])
def test_other_sequences_are_values(kind: type[Any], guarantee: str) -> None:
    for values in (["a", "b"], ("a", "b"), Pair("a", "b")):
        bolt = kind()
        bolt.make = lambda values=values: values
        assert outcome(bolt, guarantee) == ([["a", "b"]], [])


@pytest.mark.parametrize("make", EVIL)
def test_a_spout_cannot_emit_them(make: Any) -> None:
    class EmitsOnce(Spout):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("one", "two")

        def next_tuple(self) -> None:
            if not self.__dict__.get("done"):
                self.done = True
                self.collector.emit(make(), 1)

    builder = TopologyBuilder("t", Config())
    builder.set_spout("s", EmitsOnce())
    builder.set_bolt("b", TupleCaptureBolt()).shuffle_grouping("s")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        assert cluster.emitted("s") == []
        assert any(isinstance(each.error, EmitError) for each in cluster.errors)


class Emitting(Function):
    def __init__(self, values: Any) -> None:
        self.values = values

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        collector.emit(self.values)


@pytest.mark.parametrize("outputs", [["one", "two"], ["one"]])
@pytest.mark.parametrize("values", ["ab", "a", b"a", {"a": 1}, {"a"}], ids=repr)
def test_a_function_of_a_stream_cannot_emit_them(values: Any, outputs: list[str]) -> None:
    topology = TridentTopology("t")
    feeder = FeederSpout("x")
    new = topology.new_stream("s", feeder).each("x", Emitting(values), outputs)
    new.name("new")
    with LocalCluster(topology.build()) as cluster:
        feeder.feed([1])
        cluster.run_until_idle()
        assert any(
            "emit a list with one value per field" in str(each.error) for each in cluster.errors
        )


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("anchors", ["text", [1], [None]], ids=repr)
def test_anchors_are_tuples(anchors: Any, guarantee: str) -> None:
    class Anchors(Emits):
        def execute(self, tuple: Tuple) -> None:
            self.collector.emit(["a", "b"], anchors)
            self.collector.ack(tuple)

    _, errors = outcome(Anchors(), guarantee)
    assert "pass the tuples that it received" in str(errors[0])
