"""Rejected streams and their messages, and the names, hints and plans of valid ones."""

from typing import Any

import pytest

from kstorm.errors import ConfigError, EmitError, TopologyError
from kstorm.kafka import KafkaHosts, KafkaSpout, SchemeAsMultiScheme, StringScheme
from kstorm.testing import FeederSpout, complete_topology
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Config, Fields, Topology
from kstorm.trident import (
    Aggregator,
    Count,
    Function,
    MapGet,
    OpaqueTridentKafkaSpout,
    Stream,
    Sum,
    TransactionalTridentKafkaSpout,
    TridentCollector,
    TridentKafkaConfig,
    TridentTopology,
    TridentTuple,
    kstorm_state,
)
from tests.unit.trident.streams import Split, wired


def test_all_wrong_fields_are_named_with_their_lines() -> None:
    """They are in one error, without consequential mistakes."""

    def do(stream: Stream) -> None:
        stream.each("sentnce", Split(), "word").group_by("word").aggregate(Count(), "n")
        stream.project("n", "m")
        stream.each("n", Split(), "n")

    with pytest.raises(TopologyError) as refused:
        wired("n", do=do)
    first, second, third = str(refused.value).splitlines()
    assert "test_wiring.py:" in first
    assert first.endswith(
        "each(sentnce, Split → word): the stream has no field 'sentnce', only 'n'"
    )
    assert second.endswith("project(n, m): the stream has no field 'm', only 'n'")
    assert third.endswith("the stream has a field 'n' already: give the new one another name")


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (
            lambda s: s.group_by("x").persistent_aggregate(kstorm_state(), Count(), "n"),
            "no field 'x'",
        ),
        (lambda s: s.partition_by("x").map(lambda *row: row), "no field 'x'"),
        (
            lambda s: s.group_by("a").aggregate("a", Sum(), ["x", "y"]),
            "Sum returns one value: name one output field, not 2",
        ),
        (lambda s: s.persistent_aggregate(kstorm_state(), Pairs(), "n"), "the Aggregator Pairs"),
        (
            lambda s: s.persistent_aggregate({}, Count(), "n"),
            r"the state is \{\}: give kstorm_state\(\)",
        ),
        (lambda s: s.group_by("a").aggregate(Count()), "was given 1 arguments"),
        (lambda s: s.merge(s.project("a")), "use project to give both the same number of fields"),
        (
            lambda s: s.state_query(
                s.group_by("a", "b").persistent_aggregate(kstorm_state(), Count(), "n"),
                "a",
                MapGet(),
                "n",
            ),
            r"the state's key has 2 fields \(a, b\), but the query has 1",
        ),
        (lambda s: s.map(lambda *row: row).name("two words"), "component id 'two words'"),
        (lambda s: s.map(lambda *row: row).name("in"), "two components 'in'"),
    ],
)
def test_invalid_wiring_is_refused(do: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        wired("a", "b", do=do)


class Pairs(Aggregator):
    """An aggregator without an operation."""


def test_trident_requires_exactly_once() -> None:
    with pytest.raises(TopologyError, match="Trident needs 'exactly_once'"):
        TridentTopology("t", Config())
    with pytest.raises(TopologyError, match="is a str: give an OpaqueTridentKafkaSpout"):
        TridentTopology("t").new_stream("in", "topic")


class Wide(Function):
    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        collector.emit([1, 2])


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda s: s.each("n", Wide(), "x"), "Wide emitted 2 values, but has 1 output fields"),
        (
            lambda s: s.each("n", lambda n: "word", "x"),
            "lambda returned str, where several results are expected",
        ),
        (
            lambda s: s.map(lambda n: (n,), ["x", "y"]),
            "lambda emitted 1 values, but has 2 output fields",
        ),
    ],
)
def test_invalid_output_of_an_operation_is_refused(do: Any, said: str) -> None:
    result = complete_topology(wired("n", do=do), {"in": [[1]]})
    assert isinstance(result.errors[0].error, EmitError)
    assert said in str(result.errors[0].error)


def test_the_seeds_listing() -> None:
    """The attribute `scheme` is set later, for both kinds of spouts."""
    for kind in (OpaqueTridentKafkaSpout, TransactionalTridentKafkaSpout):
        topology = TridentTopology("wordcount")
        config = TridentKafkaConfig(KafkaHosts(), "test-topic")
        config.scheme = SchemeAsMultiScheme(StringScheme())
        topology.new_stream("lines", kind(config)).each(Fields("str"), Split(), Fields("word"))
        built = topology.build()
        spout = built.component("lines").component
        assert isinstance(spout, KafkaSpout)
        assert spout.spout_config.topic == "test-topic"
        assert spout.spout_config.zk_path == "/transactional/wordcount/lines"
        assert built.config.exactly_once


def test_a_setting_that_there_is_not() -> None:
    config = TridentKafkaConfig(KafkaHosts(), "t", "me", fetch_size_bytes=5)
    assert (config.client_id, config.fetch_size_bytes) == ("me", 5)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="has no 'shceme': did you mean 'scheme'"):
        config.shceme = None


def hinted() -> Topology:
    topology = TridentTopology("t")
    stream = topology.new_stream("in", FeederSpout("word")).parallelism_hint(2, tasks=4)
    counts = stream.map(str.upper).parallelism_hint(3).map(str.lower).name("lower").group_by("word")
    counts.persistent_aggregate(kstorm_state(), Count(), "n").name("totals").parallelism_hint(
        5, tasks=10
    )
    return topology.build()


def test_hints_and_names() -> None:
    """A hint applies back to the last repartitioning."""
    found = {id: (spec.parallelism, spec.num_tasks) for id, spec in hinted().components.items()}
    assert found == {"in": (2, 4), "lower": (3, 3), "totals": (5, 10)}


def test_ids_are_derived_from_operations() -> None:
    def do(stream: Stream) -> None:
        stream.each("n", Split(), "a").shuffle().map(len_of, "x").shuffle().map(lambda x: x)

    assert list(wired("n", do=do).components) == ["in", "split", "len-of", "map"]


def len_of(*row: Any) -> int:
    """Returns the number of values."""
    return len(row)


def test_a_stream_ends_in_a_topic() -> None:
    """The records are JSON with the stream's key."""
    kafka = FakeKafka({"out": 2})

    def do(stream: Stream) -> None:
        stream.to_kafka("out", key="word")

    topology = wired("word", "n", do=do)
    complete_topology(topology, {"in": [["the", 1], ["cow", 2]]}, kafka=kafka)
    found = sorted((record.key(), record.value()) for record in kafka.records("out"))
    assert found == [(b"cow", b'{"word":"cow","n":2}'), (b"the", b'{"word":"the","n":1}')]


def test_the_plan_can_be_read_and_drawn() -> None:
    topology = TridentTopology("wc")
    words = topology.new_stream("lines", FeederSpout("line")).each("line", Split(), "word")
    counts = words.group_by("word").persistent_aggregate(kstorm_state(), Count(), "n")
    counts.new_values_stream().to_kafka("counts", key="word")
    assert topology.describe().splitlines() == [
        "wc, exactly once",
        "  lines ×1 → line",
        "    FeederSpout",
        "  split ×1 → word, value",
        "    from lines, shuffle",
        "    each(line, Split → word)",
        "    combine(Count)",
        "  count ×1 → word, n",
        "    from split, by word",
        "    persistent_aggregate(Count → n)",
        "  sink ×1",
        "    from count, by word",
        "    to_kafka('counts')",
    ]
    assert '"split" -> "count" [label="by word"];' in topology.dot()
    assert [line for line in topology.dot().splitlines() if line.count('"') % 2] == []


def test_drawing_quotes_names() -> None:
    """An operation may have any name."""

    def named(word: str) -> str:
        return word

    named.__name__ = 'say "hi" \\ \n\x1b'
    topology = TridentTopology("t")
    topology.new_stream("in", FeederSpout("word")).map(named).name("out")
    assert r'"out" [label="out\nmap(say \"hi\" \\ \n\\u001b)"];' in topology.dot()
