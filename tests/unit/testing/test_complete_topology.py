"""`complete_topology`: fixed input, and all output."""

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import FeederSpout, FixedTuple, complete_topology
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    FailedException,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    Tuple,
)


class Sentences(Spout):
    """A spout whose queue a test does not have."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sentence")
        declarer.declare_stream("control", "command", "argument")

    def next_tuple(self) -> None:
        raise AssertionError("the queue is not here")


class Split(BasicBolt):
    """Emits words by default and bad sentences to another stream, and fails commands."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("bad", "sentence")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple.source_stream == "control":
            raise FailedException("no")
        for word in tuple["sentence"].split():
            collector.emit([word])
        if not tuple["sentence"]:
            collector.emit([tuple["sentence"]], stream="bad")


class Forget(Bolt):
    def execute(self, tuple: Tuple) -> None:
        pass


def topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("sentences", Sentences(), 2)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences").shuffle_grouping(
        "sentences", "control"
    )
    return builder.build()


def test_all_tuples_of_every_stream_are_returned() -> None:
    """This includes streams without consumers.

    Message ids are positions, and named streams can be fed.
    """
    result = complete_topology(
        topology(),
        {"sentences": [["the cow"], [""], FixedTuple(["stop", 1], "control"), ["moon"]]},
        seed=5,
    )
    assert sorted(result.emitted("split")) == [["cow"], ["moon"], ["the"]]
    assert result.emitted("split", "bad") == [[""]]
    assert result.emitted("sentences", "control") == [["stop", 1]]
    assert sorted(result.acked("sentences")) == [0, 1, 3]
    assert result.failed("sentences") == [2]
    assert result.errors == []


def test_completion_waits_for_timeouts() -> None:
    """A message that a bolt forgot fails in simulated time."""
    builder = TopologyBuilder("t")
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("forget", Forget()).shuffle_grouping("sentences")
    result = complete_topology(builder.build(), {"sentences": [["a"], ["b"]]})
    assert sorted(result.failed("sentences")) == [0, 1]
    assert result.pending == 0


def test_endless_timeout_resets_are_reported() -> None:
    """It is reported as an error instead of an endless wait."""

    class Resetting(Forget):
        held: Tuple | None = None

        def execute(self, tuple: Tuple) -> None:
            self.held = self.held or tuple
            self.collector.reset_timeout(self.held)

    builder = TopologyBuilder("t")
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("r", Resetting()).shuffle_grouping("sentences").add_configurations(
        topology_tick_tuple_freq_secs=5
    )
    with pytest.raises(
        Exception, match=r"1 tuples of 't' are neither acked nor failed.*reset_timeout"
    ):
        complete_topology(builder.build(), {"sentences": [["a"]]})


def test_every_spout_is_given_tuples_and_nothing_else_is() -> None:
    """A misspelt name is an error that lists the spouts."""
    with pytest.raises(
        TopologyError, match="'sentence', which is not a spout of 't': its spouts are sentences"
    ):
        complete_topology(topology(), {"sentence": []})
    with pytest.raises(TopologyError, match="no tuples are given for the spout 'sentences'"):
        complete_topology(topology(), {})


def test_the_topology_is_not_changed() -> None:
    """It can be completed again, and deployed."""
    wired = topology()
    for _ in range(2):
        assert complete_topology(wired, {"sentences": [["a"]]}).acked("sentences") == [0]
    assert isinstance(wired.component("sentences").component, Sentences)


def test_a_feeder_with_streams() -> None:
    """Named streams are declared as given."""
    feeder = FeederSpout(streams={"default": ["sentence"], "control": ["command", "argument"]})
    declarer = OutputFieldsDeclarer("feeder")
    feeder.declare_output_fields(declarer)
    assert {stream.id: list(stream.fields) for stream in declarer.streams.values()} == {
        "default": ["sentence"],
        "control": ["command", "argument"],
    }
