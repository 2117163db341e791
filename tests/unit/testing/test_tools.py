"""The small tools: handmade tuples, replaced components, and a bolt that captures."""

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import (
    FeederSpout,
    LocalCluster,
    TupleCaptureBolt,
    make_tuple,
    replace_components,
)
from kstorm.topology import TopologyBuilder
from tests.unit.testing.wordcount import Hold, Split, one_bolt, wordcount


def test_a_tuple_made_by_hand() -> None:
    """It has values by name and position, and a source."""
    made = make_tuple(["cow", 2], ["word", "count"], component="split", stream="words", task=7)
    assert (made["word"], made[1], list(made.fields)) == ("cow", 2, ["word", "count"])
    assert (made.source_component, made.source_stream, made.source_task) == ("split", "words", 7)
    assert make_tuple(["a", "b"])["field2"] == "b"
    assert list(made.roots()) == []
    with pytest.raises(TopologyError, match=r"a tuple has 1 values for 2 fields \(a, b\)"):
        make_tuple(["x"], ["a", "b"])


def test_ends_are_replaced() -> None:
    """The original topology and the rest of the copy stay unchanged."""
    original = one_bolt(FeederSpout("sentence"), Hold())
    feeder, capture = FeederSpout("sentence"), TupleCaptureBolt()
    with LocalCluster(replace_components(original, {"feeder": feeder, "bolt": capture})) as cluster:
        feeder.feed(["a"], 1)
        cluster.run_until_idle()
        assert (cluster.acked("feeder"), capture.values()) == ([1], [["a"]])
        assert (
            capture.values("feeder"),
            capture.values("other"),
            capture.values(stream="side"),
        ) == ([["a"]], [], [])
        cluster.crash("bolt")
        assert capture.values() == [["a"]]
        cluster.run_until_idle()
        assert [tuple["sentence"] for tuple in capture.tuples] == ["a", "a"]
    assert isinstance(original.component("bolt").component, Hold)


def test_ticks_are_not_captured() -> None:
    """Tick tuples do not belong to the topology."""
    capture = TupleCaptureBolt()
    with LocalCluster(
        one_bolt(FeederSpout("x"), capture, topology_tick_tuple_freq_secs=1)
    ) as cluster:
        cluster.advance_time(5)
        assert capture.tuples == []


def test_invalid_replacement_is_refused() -> None:
    """The name is unknown, or the component has another kind."""
    topology = wordcount(FeederSpout("sentence"))
    with pytest.raises(TopologyError, match="no component 'splt': it has sentences, split, count"):
        replace_components(topology, {"splt": Split()})
    with pytest.raises(TopologyError, match="'split' is a bolt: a FeederSpout cannot replace it"):
        replace_components(topology, {"split": FeederSpout("x")})
    with pytest.raises(TopologyError, match="'sentences' is a spout: a Split cannot replace it"):
        replace_components(topology, {"sentences": Split()})


def test_a_replacement_of_many_streams() -> None:
    """It emits on the streams that the original declared."""
    builder = TopologyBuilder("t")
    builder.set_spout("source", FeederSpout(streams={"default": ["a"], "side": ["b", "c"]}))
    builder.set_bolt("end", TupleCaptureBolt()).shuffle_grouping("source").shuffle_grouping(
        "source", "side"
    )
    feeder, capture = FeederSpout("anything"), TupleCaptureBolt()
    with LocalCluster(
        replace_components(builder.build(), {"source": feeder, "end": capture})
    ) as cluster:
        feeder.feed([1, 2], stream="side")
        cluster.run_until_idle()
        assert [tuple.as_dict() for tuple in capture.tuples] == [{"b": 1, "c": 2}]
