"""The testing kit rejects a component that changes a value inside an emitted tuple."""

from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import EmitError
from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    Spout,
    TopologyBuilder,
    Tuple,
    TupleBatch,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from kstorm.trident import Function, Stream, TridentCollector, TridentTopology, TridentTuple


class Batches(Bolt):
    """Emits a list inside a tuple and clears it."""

    copies = False

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("full", "size", "rows")

    def execute(self, tuple: Tuple) -> None:
        self.rows.append(tuple["word"])
        rows = self.rows[:] if self.copies else self.rows
        self.collector.emit([len(rows), rows], tuple, stream="full")
        self.rows.clear()
        self.collector.ack(tuple)


class Copies(Batches):
    copies = True


class BasicBatches(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("full", "size", "rows")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        rows = {tuple["word"]: 1}
        collector.emit([len(rows), rows], "full")
        rows.clear()


class Columns(Batches):
    def execute_batch(self, batch: TupleBatch) -> None:
        rows: list[Any] = [[word] for word in batch["word"]]
        self.collector.emit_batch([[1] * len(rows), rows], batch, stream="full")
        rows[0].clear()
        self.collector.ack_batch(batch)


SAID = "has changed a value after its emit: the field 'rows' of a tuple on the stream 'full' was "


@pytest.mark.parametrize("bolt", [Batches, BasicBatches, Columns])
def test_bolt_tester_refuses_a_changed_value(bolt: Any) -> None:
    tester = BoltTester(bolt(), "word")
    with pytest.raises(EmitError, match=f"'{bolt.__name__}' {SAID}.* and is now .* Emit a copy"):
        tester.give(["a"])


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
@pytest.mark.parametrize("bolt", [Batches, BasicBatches, Columns])
def test_local_cluster_refuses_a_changed_value(bolt: Any, guarantee: str) -> None:
    feeder = FeederSpout("word")
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("words", feeder)
    builder.set_bolt("batches", bolt()).shuffle_grouping("words")
    with LocalCluster(builder.build()) as cluster:
        feeder.feed(["a"], 1)
        with pytest.raises(EmitError, match=f"'batches' {SAID}"):
            cluster.run_until_idle()


def test_local_cluster_refuses_a_changed_value_of_a_spout() -> None:
    class Words(Spout):
        emitted = False

        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("words")

        def next_tuple(self) -> None:
            if not self.emitted:
                self.emitted, words = True, ["a"]
                self.collector.emit([words])
                words.append("b")

    builder = TopologyBuilder("t")
    builder.set_spout("words", Words())
    builder.set_bolt("sink", Bolt()).shuffle_grouping("words")
    said = r"'words' has changed a value .* was \['a'\] and is now \['a', 'b'\]"
    with LocalCluster(builder.build()) as cluster, pytest.raises(EmitError, match=said):
        cluster.run_until_idle()


def test_a_copy_is_as_it_was() -> None:
    tester = BoltTester(Copies(), "word")
    tester.give(["a"])
    tester.give(["b"])
    assert tester.emitted("full") == [[1, ["a"]], [1, ["b"]]]


class Grows(Function):
    """Emits the list of all its inputs, and appends to it later."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        self.rows.append(tuple["word"])
        collector.emit([self.rows])


def grown(rows: list[Any], word: str) -> list[Any]:
    rows.append(word)
    return rows


STREAMS: dict[str, Callable[[Stream, list[Any]], Stream]] = {
    "a function": lambda stream, rows: stream.each("word", Grows(), "rows"),
    "map": lambda stream, rows: stream.map(lambda word: grown(rows, word), "rows"),
    "map to two": lambda stream, rows: stream.map(
        lambda word: (1, grown(rows, word)), ["size", "rows"]
    ),
    "flat_map": lambda stream, rows: stream.flat_map(lambda word: [grown(rows, word)], "rows"),
}


@pytest.mark.parametrize("what", STREAMS)
def test_a_stream_refuses_a_value_that_a_later_tuple_changes(what: str) -> None:
    """All tuples of a batch would have the last value."""
    topology = TridentTopology("t")
    STREAMS[what](topology.new_stream("in", FeederSpout("word")), []).name("out")
    with LocalCluster(topology.build()) as cluster:
        feeder: Any = cluster.topology.component("in").component
        for word in "abc":
            feeder.feed([word], word)
        said = r"has changed a value after its emit: .* was \['a'.* and is now \['a', 'b', 'c'\]"
        with pytest.raises(EmitError, match=said):
            cluster.run_until_idle()


def test_the_next_operation_of_a_stream_may_change_a_value() -> None:
    """Each tuple has a list of its own."""
    topology = TridentTopology("t")
    stream = topology.new_stream("in", FeederSpout("word")).map(lambda word: [word], "rows")
    stream.map(lambda rows: grown(rows, "x"), "rows").name("out")
    with LocalCluster(topology.build()) as cluster:
        feeder: Any = cluster.topology.component("in").component
        for word in "abc":
            feeder.feed([word], word)
        cluster.run_until_idle()
        assert sorted(cluster.emitted("out")) == [[["a", "x"]], [["b", "x"]], [["c", "x"]]]
