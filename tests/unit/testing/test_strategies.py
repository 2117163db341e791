"""The Hypothesis strategies: whatever they draw is what they say, and shrinks to little."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from kstorm.core.key_hash import stable_hash
from kstorm.core.wire import VERSION, TupleFrame, decode, encode
from kstorm.errors import TopologyError
from kstorm.testing import complete_topology
from kstorm.testing.random_components import PassOn
from kstorm.testing.strategies import messages, topologies, tuples, values
from kstorm.topology import BasicBolt, BasicOutputCollector, OutputFieldsDeclarer, Topology, Tuple

some = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


@settings(some, max_examples=400)
@given(values())
def test_a_value_arrives_as_it_was_emitted(value: Any) -> None:
    """Through a frame and back; and it can be grouped by."""
    frame = TupleFrame(VERSION, "spout", 1, "default", 1, b"", b"", {}, [[value]])
    (column,) = decode(TupleFrame, encode(frame)).columns
    assert column == [value]
    assert type(column[0]) is type(value)
    assert stable_hash(column) == stable_hash([value])


@pytest.mark.parametrize("kind", [bool, int, float, str, bytes, list, dict])
def test_values_are_of_every_kind(kind: type) -> None:
    """And the least of a kind is found: nothing, or empty."""
    assert find(values(), lambda value: type(value) is kind) == kind()


@some
@given(tuples("word", "count", count=st.integers(0, 9)))
def test_tuples_have_a_value_for_each_field(drawn: list[Any]) -> None:
    """In the fields' order, from the strategy that was given."""
    assert len(drawn) == 2
    assert drawn[1] in range(10)


@some
@given(messages("a", "b", max_size=3))
def test_messages_are_tuples(drawn: list[list[Any]]) -> None:
    """So many at most."""
    assert len(drawn) <= 3
    assert all(len(one) == 2 for one in drawn)


def test_messages_may_be_empty() -> None:
    """Which is the least there is."""
    assert find(messages("a"), lambda drawn: True) == []


def test_wrong_fields() -> None:
    """A strategy for a field that is not there is a mistake, as are fields that no stream could have."""
    with pytest.raises(
        ValueError,
        match="there is a strategy for 'wrod', which is not a field: the fields are word",
    ):
        tuples("word", wrod=st.text())
    with pytest.raises(TopologyError, match="declared twice"):
        tuples("word", "word")


@some
@given(st.data())
def test_every_topology_completes(data: st.DataObject) -> None:
    """It is built, takes any messages, and each of them is acked; nothing stays open."""
    topology = data.draw(topologies())
    given = {spout.id: data.draw(messages("key", "value", max_size=3)) for spout in topology.spouts}
    result = complete_topology(topology, given, seed=data.draw(st.integers(0, 2**32)))
    for spout, some in given.items():
        assert sorted(result.acked(spout)) == list(range(len(some)))
    assert (result.errors, result.pending, result.open_trees, result.dead_letters) == ([], 0, 0, [])


def test_topology_shrinks_to_the_minimum() -> None:
    """One spout with one bolt; no more bolts than the condition needs, of one task each; and it can be read."""
    least = find(topologies(), lambda topology: True)
    assert repr(least) == (
        "spout-0: FeederSpout × 1 with 1 tasks; bolt-0: PassOn × 1 with 1 tasks ← spout-0/default by ShuffleGrouping(); "
        "1 ackers with 1 tasks"
    )
    three = find(topologies(), lambda topology: len(topology.bolts) >= 3)
    assert len(three.bolts) == 3
    assert all(spec.num_tasks == 1 for spec in three.components.values())


@pytest.mark.parametrize(
    "wanted",
    [
        "FieldsGrouping",
        "PartialKeyGrouping",
        "AllGrouping",
        "GlobalGrouping",
        "NoneGrouping",
        "FanOut",
        "Drop",
        "Hold",
    ],
)
def test_all_kinds_are_drawn(wanted: str) -> None:
    """Of groupings and of bolts."""
    seen = find(
        topologies(),
        lambda topology: wanted in repr(topology),
        settings=settings(phases=[Phase.generate]),
    )
    assert wanted in repr(seen)


class Direct(BasicBolt):
    """Has a direct stream, and one without fields."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("direct", "value", direct=True)
        declarer.declare_stream("bare")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([], stream="bare")


@some
@given(
    topologies(
        bolts=st.sampled_from([PassOn(), Direct()]), fields=["only"], max_bolts=3, max_tasks=2
    )
)
def test_topologies_of_given_bolts(topology: Topology) -> None:
    """Streams are subscribed to as they were declared; the limits are kept."""
    result = complete_topology(topology, {spout.id: [["x"]] for spout in topology.spouts})
    assert all(result.acked(spout.id) == [0] for spout in topology.spouts)
    assert len(topology.bolts) <= 3
    assert all(spec.num_tasks <= 2 for spec in topology.components.values())


def test_without_hypothesis() -> None:
    """The error says what to install."""
    script = "import sys; sys.modules['hypothesis'] = None; import kstorm.testing.strategies"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: kstorm.testing.strategies needs Hypothesis, which is not installed: install kstorm[testing]"
    )
