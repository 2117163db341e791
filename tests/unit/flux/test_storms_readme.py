"""Storm's page on Flux (`flux/README.md`, and the additions of `docs/guides/flux.md`), in its order.

The table of docs/guides/flux.md lists the differences, and a test here checks each one.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstorm.cli.__main__ import main
from kstorm.errors import KstormError
from kstorm.flux import load_file
from kstorm.kafka import EARLIEST_TIME, KafkaSpout
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Topology
from kstorm.topology.groupings import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    NoneGrouping,
    ShuffleGrouping,
)
from tests.unit.flux import storm
from tests.unit.flux.conftest import WIRED, Written

STORM = "tests.unit.flux.storm"
WORDCOUNT = f"""
name: yaml-topology
spouts:
  - id: spout-1
    class: {STORM}:TestWordSpout
    parallelism: 1
bolts:
  - id: bolt-1
    class: {STORM}:TestWordCounter
    parallelism: 1
  - id: bolt-2
    class: {STORM}:LogInfoBolt
    parallelism: 1
streams:
  - name: "spout-1 --> bolt-1"
    from: spout-1
    to: bolt-1
    grouping: {{type: FIELDS, args: [word]}}
  - name: "bolt-1 --> bolt2"
    from: bolt-1
    to: bolt-2
    grouping: {{type: SHUFFLE}}
"""


def with_component(component: str) -> str:
    """Builds a topology whose bolt gets the component `it` as its argument."""
    bolt = f"  - {{id: bolt, class: {STORM}:ConfiguredBolt, args: [ref: it]}}\n"
    wired = (
        WIRED.replace("bolts:\n", f"bolts:\n{bolt}")
        + "  - {from: log, to: bolt, grouping: {type: SHUFFLE}}\n"
    )
    return f"name: t\ncomponents:\n{component}\n{wired}"


def it(topology: Topology) -> Any:
    """Returns the component `it`."""
    return topology.component("bolt").component.args[0]  # type: ignore[attr-defined]


# Command line options


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dry-run`: `kstorm values` builds the topology, and prints its components."""
    (tmp_path / "my_config.yaml").write_text(WORDCOUNT)
    with pytest.raises(SystemExit) as ended:
        main(["values", str(tmp_path / "my_config.yaml")])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "topologyName: yaml-topology" in said
    assert [
        line.strip() for line in said.splitlines() if line.startswith("  ") and line.endswith(":")
    ][:3] == ["spout-1:", "bolt-1:", "bolt-2:"]


# YAML configuration


def test_the_simple_example(written: Written, local_cluster: Callable[..., LocalCluster]) -> None:
    """Its setting `topology.workers` has no counterpart here, and is refused."""
    cluster = local_cluster(written(WORDCOUNT))
    cluster.run_until_idle()
    assert sorted(word for (word,) in cluster.emitted("bolt-2")) == sorted(storm.WORDS * 2)
    for name in ("topology.workers", "topology_workers"):
        with pytest.raises(KstormError, match=rf"t\.yaml:2:\d+: there is no setting '{name}'"):
            written(f"name: t\nconfig: {{{name}: 1}}\n{WIRED}")


# Property substitution, environment variable substitution


BUILDER = f"""
  - id: it
    class: {STORM}:Configured
    args:
      - "${{kafka.bootstrap.hosts}}"
      - [myKafkaTopic]
"""


def test_properties_by_their_keys(written: Written) -> None:
    """A list works too, as an argument of a constructor."""
    topology = written(with_component(BUILDER), "kafka.bootstrap.hosts: localhost:9092")
    assert it(topology).args == ("localhost:9092", ["myKafkaTopic"])


def test_a_variable_of_the_environment(written: Written) -> None:
    """It needs no option."""
    text = with_component(BUILDER.replace("${kafka.bootstrap.hosts}", "${ENV-ZK_HOSTS}"))
    assert it(written(text, None, {"ZK_HOSTS": "zk:2181"})).args[0] == "zk:2181"


# Components


def test_a_component_has_an_id_and_a_class(written: Written) -> None:
    """A component without arguments is created without any."""
    assert it(written(with_component(f"  - {{id: it, class: {STORM}:Configured}}"))).args == ()


def test_a_factory_with_a_component_as_its_argument(written: Written) -> None:
    """An example of `docs/guides/flux.md`: a bolt's factory takes the object of another factory."""
    components = "  - {id: time, class: 'datetime:timedelta', kwargs: {seconds: 10}}\n"
    made = f"  - {{id: it, class: {STORM}:Configured, factory: made_of, args: [ref: time]}}"
    assert it(written(with_component(components + made))).args[0].total_seconds() == 10


@pytest.mark.parametrize("first", [True, False])
def test_reference_may_precede_its_definition(written: Written, first: bool) -> None:
    """Storm requires the definition first."""
    parts = [
        f"  - {{id: recordTranslator, class: {STORM}:TestClass, args: [x]}}\n",
        f"  - {{id: it, class: {STORM}:Configured, args: [{{ref: recordTranslator}}]}}\n",
    ]
    assert (
        it(written(with_component("".join(parts if first else parts[::-1])))).args[0].field == "x"
    )


SELECTORS = "".join(
    f"  - {{id: f{number}, class: {STORM}:FieldSelector, args: [F{number}]}}\n" for number in (1, 2)
)
BINDING = f"{SELECTORS}  - {{id: it, class: {STORM}:StatementBuilder, args: [INSERT], config_methods: [{{name: bind, args: %s}}]}}"


def test_lists_of_references(written: Written) -> None:
    """A list is one argument. A method with variable arguments gets each item.

    Storm converts between the two.
    """
    assert it(written(with_component(BINDING % "[{ref: f1}, {ref: f2}]"))).bound == ["F1", "F2"]
    with pytest.raises(KstormError, match=r"t\.yaml:5:.* bind raised AttributeError"):
        written(with_component(BINDING % "[{reflist: [f1, f2]}]"))
    topology = written(
        with_component(
            f"{SELECTORS}  - {{id: it, class: {STORM}:Configured, args: [reflist: [f1, f2]]}}"
        )
    )
    assert [each.name for each in it(topology).args[0]] == ["F1", "F2"]


PROPERTIES = f"""
  - id: it
    class: {STORM}:TestBolt
    args: [FOO]
    properties:
"""


def test_properties_by_a_setter_or_an_attribute(written: Written) -> None:
    """A setter is preferred. The value may be a component."""
    setter = "      - {name: weight, value: 10}\n      - {name: foo, value: 5}\n      - {name: level, ref: one}\n"
    one = f"  - {{id: one, class: {STORM}:TestClass, args: [x]}}"
    bolt = it(written(with_component(one + PROPERTIES + setter)))
    assert (bolt.weight, bolt.foo, bolt.level.field) == (10.0, 5, "x")


@pytest.mark.parametrize(("value", "becomes"), [("10", 10.0), ("1.5", 1.5), ("null", None)])
def test_whole_number_is_accepted_for_a_float(
    written: Written, value: str, becomes: object
) -> None:
    """This holds for setters and constructors.

    Storm converts any number, but here no digits are lost.
    """
    topology = written(with_component(f"{PROPERTIES}      - {{name: weight, value: {value}}}"))
    found = it(topology).weight
    assert (found, type(found)) == (becomes, type(becomes))
    policy = f"  - {{id: it, class: {STORM}:FileSizeRotationPolicy, args: [5, MB]}}"
    assert type(it(written(with_component(policy))).count) is float


def test_configuration_methods(written: Written) -> None:
    """They have no, one or two arguments or references, and are called in order."""
    methods = """
    config_methods:
      - {name: with_foo, args: [foo]}
      - {name: with_none}
      - {name: with_bar, args: [bar]}
      - {name: with_foo_bar, args: [foo, bar]}
      - {name: with_classes, args: [reflist: [one]]}
"""
    one = f"  - {{id: one, class: {STORM}:TestClass, args: [x]}}"
    bolt = it(written(with_component(one + PROPERTIES.replace("    properties:\n", "") + methods)))
    assert (bolt.foo, bolt.none, bolt.bar, bolt.foobar, bolt.classes) == (
        "foo",
        "hit",
        "bar",
        "foobar",
        ["x"],
    )


def test_a_member_of_an_enum_by_its_name(written: Written) -> None:
    """`rotationPolicy`: an argument may be an enum member."""
    policy = it(
        written(
            with_component(
                f"  - {{id: it, class: {STORM}:FileSizeRotationPolicy, args: [5.0, MB]}}"
            )
        )
    )
    assert (policy.count, policy.units) == (5.0, storm.Units.MB)


# Topology config, existing topologies


def test_the_topologys_config(written: Written) -> None:
    """The config holds kstorm's settings and the user's own."""
    config = (
        "{topology_max_spout_pending: 1000, topology_message_timeout_secs: 30, my.own: {a: [1]}}"
    )
    found = written(f"name: t\nconfig: {config}\n{WIRED}").config
    assert (found.topology_max_spout_pending, found.topology_message_timeout_secs) == (1000, 30)
    assert found["my.own"] == {"a": [1]}


def test_an_existing_topology(written: Written) -> None:
    """A function of any name takes the config. Its arguments may be components."""
    source = f"topology_source: {{function: '{STORM}:simple_topology', args: [foo, {{ref: it}}]}}"
    component = "components: [{id: it, class: 'builtins:str', args: [bar]}]"
    topology = written(f"config: {{topology_debug: true}}\n{component}\n{source}")
    assert (topology.name, topology.config.topology_debug) == ("foo-bar", True)


# Spouts and bolts


def test_tasks_and_parallelism(written: Written) -> None:
    """`numTasks` is `tasks`. Memory and CPU belong to the chart, as the error explains."""
    text = WORDCOUNT.replace(
        "TestWordCounter\n    parallelism: 1", "TestWordCounter\n    parallelism: 2\n    tasks: 4"
    )
    spec = written(text).component("bolt-1")
    assert (spec.parallelism, spec.num_tasks) == (2, 4)
    for key in ("onHeapMemoryLoad", "offHeapMemoryLoad", "cpuLoad"):
        with pytest.raises(KstormError, match=r"in the chart.s values: components\.ID\.resources"):
            written(WORDCOUNT.replace("    parallelism: 1\n", f"    {key}: 1\n", 1))


def test_the_kafka_spout(written: Written) -> None:
    """Its builder's `firstPollOffsetStrategy` is `start_offset_time` of a SpoutConfig.

    Its `setProp` is `kafka_properties`.
    """
    text = f"""
name: t
components:
  - {{id: brokers, class: 'kstorm.kafka:KafkaHosts', args: ["localhost:9092"]}}
  - {{id: text, class: 'kstorm.kafka:StringScheme'}}
  - {{id: scheme, class: 'kstorm.kafka:SchemeAsMultiScheme', args: [{{ref: text}}]}}
  - id: spoutConfig
    class: kstorm.kafka:SpoutConfig
    args: [{{ref: brokers}}, myKafkaTopic, /kafkaSpout, myId]
    properties:
      - {{name: start_offset_time, value: -2}}
      - {{name: scheme, ref: scheme}}
      - {{name: kafka_properties, value: {{fetch.min.bytes: 1000}}}}
spouts:
  - {{id: kafka-spout, class: 'kstorm.kafka:KafkaSpout', args: [{{ref: spoutConfig}}]}}
bolts:
  - {{id: log, class: {STORM}:LogInfoBolt}}
streams:
  - {{from: kafka-spout, to: log, grouping: {{type: SHUFFLE}}}}
"""
    spout = written(text).component("kafka-spout").component
    assert isinstance(spout, KafkaSpout)
    assert (spout.spout_config.start_offset_time, spout.spout_config.topic) == (
        EARLIEST_TIME,
        "myKafkaTopic",
    )
    assert spout.spout_config.kafka_properties == {"fetch.min.bytes": 1000}


def test_a_map_is_an_argument(written: Written) -> None:
    """The map is an argument like that of `setProp`."""
    component = f"  - {{id: it, class: {STORM}:Configured, config_methods: [{{name: tell, args: [a, {{b.c: 1, d: x}}]}}]}}"
    assert it(written(with_component(component))).told == {"a": {"b.c": 1, "d": "x"}}


def test_a_components_own_config(written: Written) -> None:
    """It applies to that component only, and is checked when the topology is built.

    Own names are passed on unchanged.
    """
    own = "    config: {topology_tick_tuple_freq_secs: 5, my.own: yes-it-is}\n"
    topology = written(WORDCOUNT.replace("LogInfoBolt\n", f"LogInfoBolt\n{own}"))
    found = {
        id: spec.config.topology_tick_tuple_freq_secs for id, spec in topology.components.items()
    }
    assert found == {"spout-1": None, "bolt-1": None, "bolt-2": 5}
    assert topology.component("bolt-2").config["my.own"] == "yes-it-is"
    with pytest.raises(KstormError, match="topology_tick_tuple_freq_secs is 'often': it must be"):
        written(WORDCOUNT.replace("LogInfoBolt\n", f"LogInfoBolt\n{own}".replace("5", "often")))


# Streams and groupings


@pytest.mark.parametrize(
    ("type", "further", "kind"),
    [
        ("ALL", "", AllGrouping),
        ("CUSTOM", f", custom_class: {{class: {STORM}:NGrouping, args: [1]}}", CustomGrouping),
        ("DIRECT", ", stream_id: to-one", DirectGrouping),
        ("SHUFFLE", "", ShuffleGrouping),
        ("LOCAL_OR_SHUFFLE", "", ShuffleGrouping),
        ("FIELDS", ", args: [word]", FieldsGrouping),
        ("GLOBAL", "", GlobalGrouping),
        ("NONE", ", stream_id: late", NoneGrouping),
    ],
)
def test_each_grouping(written: Written, type: str, further: str, kind: type) -> None:
    """The stream is the default one, or a declared one by name."""
    text = WIRED.replace("TestWordSpout", "Streams").replace(
        "{type: SHUFFLE}", f"{{type: {type}{further}}}"
    )
    (found,) = written(f"name: t\n{text}").component("log").inputs
    assert isinstance(found.grouping, kind)
    assert found.stream == (
        further.rpartition("stream_id: ")[2] if "stream_id" in further else "default"
    )


def test_undeclared_stream_is_refused(written: Written) -> None:
    """The error lists the declared streams."""
    with pytest.raises(
        KstormError,
        match=r"t\.yaml:10:5: .* of 'words', which does not declare it: its streams are",
    ):
        written(f"name: t\n{WIRED.replace('{type: SHUFFLE}', '{type: SHUFFLE, stream_id: later}')}")


def test_connections_can_be_cyclical(
    written: Written, local_cluster: Callable[..., LocalCluster]
) -> None:
    """A bolt may subscribe to itself."""
    text = f"name: t\n{WIRED}  - {{from: log, to: log, grouping: {{type: SHUFFLE}}}}\n".replace(
        "LogInfoBolt", "Shortening"
    )
    cluster = local_cluster(written(text))
    cluster.run_until_idle()
    assert sorted(word for (word,) in cluster.emitted("log"))[:3] == ["a"] * 2 + ["ackson"]
    assert cluster.pending == 0


# Includes, the basic example, and Trident


@pytest.mark.parametrize(("override", "wins"), [("true", "there"), ("false", "here")])
def test_includes_and_overrides(written: Written, override: str, wins: str) -> None:
    """With `override`, the included value wins. Otherwise the value in this file wins."""
    text = f"name: t\nconfig: {{a: here}}\nincludes: [{{file: other.yaml, resource: false, override: {override}}}]\n{WIRED}"
    assert written(text, other="config: {a: there}").config["a"] == wins


def test_a_file_of_the_python_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`resource: true` uses the Python path instead of Java's class path."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "wired.yaml").write_text(WIRED)
    (tmp_path / "t.yaml").write_text(
        "name: t\nincludes: [{file: configs/wired.yaml, resource: true}]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(load_file(tmp_path / "t.yaml").components) == ["words", "log"]


def test_trident(written: Written, local_cluster: Callable[..., LocalCluster]) -> None:
    """A function builds it, and it counts."""
    config = "{topology_processing_guarantee: exactly_once}"
    source = f"{{function: '{STORM}:trident_topology'}}"
    topology = written(f"name: my-trident-topology\nconfig: {config}\ntopology_source: {source}\n")
    kafka = FakeKafka({"sentences": 1, "counts": 1})
    for sentence in storm.SENTENCES:
        kafka.produce("sentences", sentence)
    cluster = local_cluster(topology, kafka=kafka)
    cluster.run_until_idle()
    cluster.advance_time(5)
    cluster.run_until_idle()
    told = [json.loads(record.value() or b"") for record in kafka.records("counts")]
    assert topology.name == "my-trident-topology"
    assert {each["word"]: each["count"] for each in told} == Counter(
        " ".join(storm.SENTENCES).split()
    )
