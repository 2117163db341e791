"""The outline that replaces a topology's code for readers of its topics.

It survives JSON, and old and new processes understand each other's.
"""

from math import inf
from typing import Any

import msgspec
import pytest

from examples.diamond import build
from kstorm.errors import ConfigError, TopologyError
from kstorm.introspection.outline import (
    Outline,
    OutlineComponent,
    RetryPolicy,
    SpoutSource,
    parse_outline,
)
from kstorm.introspection.outline_builder import outline_of
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.topology import Config, Topology, TopologyBuilder
from tests.unit.operations.rebuilding import End


def reading(**more: Any) -> Topology:
    """Builds a topology with a KafkaSpout of that config."""
    given = {"topic": "in", "zk_root": "/kstorm", "id": "mine", **more}
    hosts = given.pop("hosts", KafkaHosts())
    config = SpoutConfig(hosts, given.pop("topic"), given.pop("zk_root"), given.pop("id"), **given)
    builder = TopologyBuilder("t", Config(topology_enable_message_timeouts=False))
    builder.set_spout("lines", KafkaSpout(config)).set_num_tasks(3)
    builder.set_bolt("end", End()).shuffle_grouping("lines")
    return builder.build()


def through_json(found: Outline) -> Outline:
    parsed = parse_outline(msgspec.json.decode(msgspec.json.encode(found)))
    assert parsed is not None
    return parsed


def test_outline_has_the_names_and_numbers_of_its_topology() -> None:
    """This holds for every attribute, after a trip through JSON."""
    topology = build("words", "in", "out")
    found = through_json(outline_of(topology))
    assert found == outline_of(topology)
    assert [each.id for each in found.bolts] == [bolt.id for bolt in topology.bolts]
    assert [each.id for each in found.spouts] == [spout.id for spout in topology.spouts]
    for id in topology.components:
        assert found.task_ids(id) == topology.task_ids(id)
        assert found.bolt_topic(id) == topology.bolt_topic(id)
    for task in range(1, topology.total_tasks + 1):
        assert found.name_of(task) == f"{topology.locate_task(task)[0]}:{task}"
    assert found.name_of(topology.total_tasks + 1) == f"task {topology.total_tasks + 1}"
    assert (found.acker_tasks, found.exactly_once) == (
        topology.config.acker_tasks,
        topology.config.exactly_once,
    )
    wired = {
        (each.component, each.stream, bolt.id) for bolt in topology.bolts for each in bolt.inputs
    }
    assert {(edge.source, edge.stream, edge.target) for edge in found.edges} == wired
    assert any(edge.grouping.startswith("fields ") for edge in found.edges)
    with pytest.raises(TopologyError, match="has no component 'nothing': it has "):
        found.task_ids("nothing")


def test_outline_has_the_source_of_a_kafka_spout() -> None:
    """The source has its retries and its servers, but no login."""
    secret = {"sasl.password": "a secret"}
    topology = reading(
        retry_initial_delay_ms=5,
        retry_limit=2,
        zk_servers=["one", "two:9"],
        kafka_properties=secret,
        hosts=KafkaHosts("k:1"),
    )
    text = msgspec.json.encode(outline_of(topology))
    assert b"a secret" not in text
    found = through_json(outline_of(topology))
    component = found.component("lines")
    assert component.timeout_ms == inf
    assert component.reading == SpoutSource(
        "in",
        "/kstorm",
        "mine",
        zk_connect="one:2181,two:9",
        bootstrap="k:1",
        retries=RetryPolicy(5, 2.0, 60_000, 2),
    )
    config = component.reading.config
    assert (config.zk_connect, config.zk_path_of("in"), config.hosts) == (
        "one:2181,two:9",
        "/kstorm/mine",
        KafkaHosts("k:1"),
    )
    assert component.reading.path_of("in") == config.zk_path_of("in")


def test_topic_without_a_reader_lists_the_readers() -> None:
    """Readers have a topic's name or a regular expression. Each matching topic has its own node."""
    found = outline_of(reading(topic="in-.*", kafka_topic_wildcard_match=True))
    assert found.reader_of("in-1") == "lines"
    assert found.readings["lines"].path_of("in-1") == "/kstorm/mine/in-1"
    with pytest.raises(
        ConfigError, match=r"no spout of 't' reads the topic 'out'; they read 'in-\.\*' \(lines\)"
    ):
        found.reader_of("out")
    with pytest.raises(
        ConfigError, match="'end' is not a spout that reads Kafka; spouts that do: lines"
    ):
        found.reader_of("in-1", "end")
    two = Outline("t", [each(id) for id in ("a", "b")])
    with pytest.raises(
        ConfigError, match="several spouts read 'in': give --component; they are a, b"
    ):
        two.reader_of("in")
    assert two.reader_of("in", "b") == "b"
    with pytest.raises(ConfigError, match=r"no spout reads Kafka$"):
        Outline("t").reader_of("in")


def each(id: str) -> OutlineComponent:
    return OutlineComponent(id, "spout", 1, 1, None, SpoutSource("in", "", id))


def test_old_and_new_processes_understand_each_other() -> None:
    """Unknown fields are ignored, missing ones have defaults, and invalid outlines are rejected."""
    newer = {
        "name": "t",
        "colour": "blue",
        "components": [{"id": "a", "kind": "bolt", "num_tasks": 2, "first_task": 4, "x": 1}],
    }
    found = parse_outline(newer)
    assert found == Outline("t", [OutlineComponent("a", "bolt", 2, 4)])
    assert parse_outline({"name": "t"}) == Outline("t")
    wrong: list[object] = [{}, {"name": 3}, [], None, {"name": "t", "components": [{"id": "a"}]}]
    assert [parse_outline(page) for page in wrong] == [None] * len(wrong)
