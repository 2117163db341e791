"""The Hypothesis strategies draw valid values, and shrink to small examples."""

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


@settings(some, max_examples=200)
@given(values())
def test_a_value_arrives_as_it_was_emitted(value: Any) -> None:
    """It survives a frame, and can be a key of a grouping."""
    frame = TupleFrame(VERSION, "spout", 1, "default", 1, b"", b"", {}, [[value]])
    (column,) = decode(TupleFrame, encode(frame)).columns
    assert column == [value]
    assert type(column[0]) is type(value)
    assert stable_hash(column) == stable_hash([value])


@pytest.mark.parametrize("kind", [bool, int, float, str, bytes, list, dict])
def test_values_are_of_every_kind(kind: type) -> None:
    """Hypothesis shrinks each kind to its empty value."""
    assert find(values(), lambda value: type(value) is kind) == kind()


@some
@given(tuples("word", "count", count=st.integers(0, 9)))
def test_tuples_have_a_value_for_each_field(drawn: list[Any]) -> None:
    """The values are in the fields' order and come from the given strategy."""
    assert len(drawn) == 2
    assert drawn[1] in range(10)


@some
@given(messages("a", "b", max_size=3))
def test_messages_are_tuples(drawn: list[list[Any]]) -> None:
    """The number of messages respects the maximum."""
    assert len(drawn) <= 3
    assert all(len(one) == 2 for one in drawn)


def test_messages_may_be_empty() -> None:
    """The empty list is the smallest example."""
    assert find(messages("a"), lambda drawn: True) == []


def test_wrong_fields() -> None:
    """A strategy for an unknown field is a mistake, as are invalid field names."""
    with pytest.raises(
        ValueError,
        match="there is a strategy for 'wrod', which is not a field: the fields are word",
    ):
        tuples("word", wrod=st.text())
    with pytest.raises(TopologyError, match="declared twice"):
        tuples("word", "word")


@settings(some, max_examples=30)
@given(st.data())
def test_every_topology_completes(data: st.DataObject) -> None:
    """It builds, accepts any messages, and acks each of them. No tree stays open."""
    topology = data.draw(topologies())
    given = {spout.id: data.draw(messages("key", "value", max_size=3)) for spout in topology.spouts}
    result = complete_topology(topology, given, seed=data.draw(st.integers(0, 2**32)))
    for spout, some in given.items():
        assert sorted(result.acked(spout)) == list(range(len(some)))
    assert (result.errors, result.pending, result.open_trees, result.dead_letters) == ([], 0, 0, [])


def test_topology_shrinks_to_the_minimum() -> None:
    """The minimum is one spout with one bolt of one task, or the fewest bolts that the condition needs.

    Its repr is readable.
    """
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
    """The strategies draw every grouping and every kind of bolt."""
    seen = find(
        topologies(),
        lambda topology: wanted in repr(topology),
        settings=settings(phases=[Phase.generate]),
    )
    assert wanted in repr(seen)


class Direct(BasicBolt):
    """Declares a direct stream, and one without fields."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("direct", "value", direct=True)
        declarer.declare_stream("bare")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([], stream="bare")


@settings(some, max_examples=30)
@given(
    topologies(
        bolts=st.sampled_from([PassOn(), Direct()]), fields=["only"], max_bolts=3, max_tasks=2
    )
)
def test_topologies_of_given_bolts(topology: Topology) -> None:
    """Subscriptions match the declared streams, and the limits hold."""
    result = complete_topology(topology, {spout.id: [["x"]] for spout in topology.spouts})
    assert all(result.acked(spout.id) == [0] for spout in topology.spouts)
    assert len(topology.bolts) <= 3
    assert all(spec.num_tasks <= 2 for spec in topology.components.values())


def test_without_hypothesis() -> None:
    """The error names the package to install."""
    script = "import sys; sys.modules['hypothesis'] = None; import kstorm.testing.strategies"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: kstorm.testing.strategies needs Hypothesis, which is not installed: install kstorm[testing]"
    )
