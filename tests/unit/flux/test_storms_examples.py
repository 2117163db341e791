"""The examples of Storm's Flux, translated: from its README, `flux-examples`, and its own tests.

Each of them runs.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from kstorm.errors import KstormError
from kstorm.flux import load_file
from kstorm.kafka import KafkaSpout, ProcessingGuarantee, SchemeAsMultiScheme, StringScheme
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Topology
from kstorm.topology.groupings import CustomGrouping
from tests.unit.flux import storm

FOLDER = Path(__file__).parent / "examples"
PATH = {"PATH": "/bin"}
WORDS = sorted(storm.WORDS * 2)
OF_SENTENCES = sorted(" ".join(storm.SENTENCES).split())


def load(name: str, properties: str | None = None) -> Topology:
    return load_file(
        FOLDER / f"{name}.yaml",
        environment=PATH,
        properties=FOLDER / properties if properties else None,
    )


@pytest.mark.parametrize(
    ("name", "properties", "last", "comes_out"),
    [
        ("simple_wordcount", None, "bolt-2", WORDS),
        ("simple_stateful_wordcount", None, "bolt-2", WORDS),
        ("tck", None, "bolt-2", sorted(WORDS * 5)),
        ("shell_test", None, "log", OF_SENTENCES),
        ("multilang", None, "log", OF_SENTENCES),
        ("include_test", None, "log", OF_SENTENCES),
        ("substitution-test", "test.properties", "log", OF_SENTENCES),
        ("diamond-topology", None, "D", sorted(WORDS * 2)),
        ("component-config-test", None, "bolt-1", WORDS),
        ("component-config-override-test", None, "bolt-1", WORDS),
        ("component-config-invalid-key-test", None, "bolt-1", WORDS),
        ("component-config-missing-test", None, "bolt-1", WORDS),
        ("config-methods-test", None, "bolt-1", WORDS),
        ("existing-topology", None, "log", WORDS),
        ("existing-topology-trident", None, "log", WORDS),
        ("hdfs_test", "hdfs_bolt.properties", "bolt-1", WORDS),
        ("simple_hbase", "hbase_bolt.properties", "hbase-bolt", WORDS),
    ],
)
def test_an_example_runs(
    local_cluster: Callable[..., LocalCluster],
    name: str,
    properties: str | None,
    last: str,
    comes_out: list[str],
) -> None:
    """Every tuple arrives at the last bolt, in every tree."""
    cluster = local_cluster(load(name, properties))
    cluster.run_until_idle()
    assert sorted(word for (word,) in cluster.emitted(last)) == comes_out
    assert cluster.errors == []
    assert cluster.pending == 0


def test_every_example_has_its_test() -> None:
    """The tests are above and below."""
    of_files = {path.stem for path in FOLDER.glob("*.yaml")}
    said = Path(__file__).read_text()
    assert [name for name in of_files if f'"{name}"' not in said] == []


def test_counts_are_counts(local_cluster: Callable[..., LocalCluster]) -> None:
    """Equal words go to one of the hundred tasks."""
    cluster = local_cluster(load("tck"))
    cluster.run_until_idle()
    assert Counter(dict(cluster.emitted("bolt-1"))) == Counter(dict.fromkeys(storm.WORDS, 10))


def test_tasks_with_a_custom_grouping() -> None:
    """`tck`: the grouping chooses the first of the last bolt's two tasks."""
    topology = load("tck")
    assert [spec.num_tasks for spec in topology.components.values()] == [5, 100, 2]
    (declared,) = topology.component("bolt-2").inputs
    assert isinstance(declared.grouping, CustomGrouping)
    assert isinstance(declared.grouping.grouping, storm.NGrouping)
    declared.grouping.grouping.prepare(None, "bolt-1", "default", [7, 8])
    assert declared.grouping.grouping.choose_tasks(1, ["nathan", 1]) == [7]


def test_the_kafka_spout(local_cluster: Callable[..., LocalCluster]) -> None:
    """Its config is built from components with properties. The spout reads."""
    topology = load("kafka_spout")
    spout = topology.component("kafka-spout").component
    assert isinstance(spout, KafkaSpout)
    config = spout.spout_config
    assert (config.topic, config.zk_root, config.id, config.ignore_zk_offsets) == (
        "myKafkaTopic",
        "/kafkaSpout",
        "myId",
        True,
    )
    assert isinstance(config.scheme, SchemeAsMultiScheme)
    assert isinstance(config.scheme.scheme, StringScheme)
    assert config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
    kafka = FakeKafka({"myKafkaTopic": 1})
    for sentence in storm.SENTENCES:
        kafka.produce("myKafkaTopic", sentence)
    cluster = local_cluster(topology, kafka=kafka)
    cluster.run_until_idle()
    assert sorted(word for (word,) in cluster.emitted("log")) == OF_SENTENCES


def test_substitution() -> None:
    """`substitution-test`: the name, an environment variable, a list, and one of its items."""
    topology = load("substitution-test", "test.properties")
    assert topology.name == "substitution-topology"
    assert topology.config["test.env.value"] == "/bin"
    assert topology.config["list.property.target"] == ["A string list"]
    assert topology.config["list.element.property.target"] == "A string list"


def test_a_components_config() -> None:
    """It applies to the component only, and overrides the topology's config. Own names are kept."""
    components = load("component-config-test").components
    assert [spec.config.topology_debug for spec in components.values()] == [True, False]
    components = load("component-config-override-test").components
    assert [spec.config.topology_debug for spec in components.values()] == [True, False]
    components = load("component-config-missing-test").components
    assert [spec.config.topology_debug for spec in components.values()] == [False, False]
    components = load("component-config-invalid-key-test").components
    assert components["bolt-1"].config["MY.INAVLID.KEY"] == "none"
    components = load("shell_test").components
    assert components["splitsentence"].config["publisher.data_paths"] == ["actions"]


def test_arguments_factories_methods_and_properties() -> None:
    """`config-methods-test`: each bolt has the arguments and calls of the file."""
    bolts = [spec.component for spec in load("config-methods-test").bolts]
    told = [bolt for bolt in bolts if isinstance(bolt, storm.TestBolt)]
    assert [bolt.given[0] for bolt in told] == [
        storm.TestEnum.FOO,
        storm.TestEnum.FOO,
        storm.TestEnum.BAR,
        10,
    ]
    first = told[0]
    assert first.given == (storm.TestEnum.FOO, 1.0, True, ["foo", "bar"])
    assert (first.foo, first.none, first.bar, first.foobar) == ("foo", "hit", "bar", "foobar")
    assert first.classes == ["foo", "bar", "baz"]
    assert first.durations == [timedelta(hours=10)] * 2
    assert first.time_len_set == timedelta(hours=10)


def test_configuration_values_may_be_components() -> None:
    """`hdfs_test`, `simple_hbase`: objects, enum members and replaced values."""
    bolt = load("hdfs_test", "hdfs_bolt.properties").component("bolt-1").component
    assert isinstance(bolt, storm.ConfiguredBolt)
    assert bolt.told["fs_url"] == "hdfs://hadoop:54310"
    assert bolt.told["rotation_policy"].units is storm.Units.MB
    assert bolt.told["file_name_format"].told == {"path": "/incoming", "extension": ".txt"}
    assert bolt.told["sync_policy"].args == (1000,)
    topology = load("simple_hbase", "hbase_bolt.properties")
    table, mapper = topology.component("hbase-bolt").component.args  # type: ignore[attr-defined]
    assert table == "WordCount"
    assert list(mapper.told["counter_fields"].fields) == ["count"]
    assert topology.config["hbase.conf"] == {
        "hbase.rootdir": "hdfs://hadoop:54310/hbase",
        "hbase.zookeeper.quorum": "hadoop",
    }


def test_windows(local_cluster: Callable[..., LocalCluster]) -> None:
    """`simple_windowing`: every third word shows a window with three new words."""
    cluster = local_cluster(load("simple_windowing"))
    cluster.run_until_idle()
    assert cluster.errors == []
    assert len(cluster.emitted("bolt-2")) == len(WORDS) // 3 * 3


def test_a_topology_of_code() -> None:
    """`existing-topology`: it has the file's arguments, config and, on request, name."""
    assert load("existing-topology").name == "existing-topology"
    topology = load("existing-topology-trident")
    assert topology.name == "existing-topology"
    assert topology.config.topology_max_spout_pending == 7


def test_the_name_of_an_include_does_not_win() -> None:
    """`include_test`, with override: false."""
    assert load("include_test").name == "include-topology"


@pytest.mark.parametrize(
    ("name", "properties", "says"),
    [
        (
            "bad_shell_test",
            None,
            ":13:9: add_component_config(name, value): too many positional arguments",
        ),
        (
            "bad_hbase",
            "hbase_bolt.properties",
            ":13:9: names is 'count': it must be a list of text",
        ),
        (
            "bad_static_factory_test",
            None,
            ":14:9: number is 'This is not a valid parameter, so should trigger an error': it must",
        ),
        (
            "component-config-invalid-test",
            None,
            "topology_debug is 'not-a-boolean': it must be bool",
        ),
        ("invalid-existing-topology", None, ":8:5: there are spouts and a topology_source"),
    ],
)
def test_a_bad_example_is_refused(name: str, properties: str | None, says: str) -> None:
    """The error has the file, the line and the mistake."""
    with pytest.raises(KstormError) as caught:
        load(name, properties)
    assert f"{name}.yaml:" in str(caught.value)
    assert says in str(caught.value)
