"""The word count of the examples, in Python and in YAML, has the same wiring."""

from typing import Any

from examples.wordcount.topology import topology
from kstorm.kafka import KafkaBolt, KafkaSpout
from kstorm.runtime.base.settings import load_topology
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import ComponentSpec, Topology

FILE = "examples/wordcount/topology.yaml"


def wiring_of(topology: Topology) -> dict[str, Any]:
    """Returns the declarations of each component."""

    def of(spec: ComponentSpec) -> tuple[Any, ...]:
        declared = (spec.kind, type(spec.component), spec.parallelism, spec.num_tasks)
        return (*declared, dict(spec.streams), list(spec.inputs), spec.config)

    return {spec.id: of(spec) for spec in topology.components.values()}


def test_code_and_file_have_the_same_wiring() -> None:
    """This covers name, settings, components in order, tasks, streams, groupings and topics."""
    coded, wired = topology(), load_topology(FILE)
    assert (wired.name, wired.config) == (coded.name, coded.config)
    assert wiring_of(wired) == wiring_of(coded)
    assert wired.topics() == coded.topics()
    spouts = [each.component("sentences").component for each in (coded, wired)]
    configs = [vars(spout.spout_config) for spout in spouts if isinstance(spout, KafkaSpout)]
    for config in configs:
        config["scheme"] = (type(config["scheme"]), type(config["scheme"].scheme))
    assert configs[0] == configs[1]
    assert isinstance(wired.component("sink").component, KafkaBolt)


def test_code_and_file_give_the_same_counts(local_cluster: Any) -> None:
    """The counts go from topic to topic."""
    found = []
    for each in (topology(), load_topology(FILE)):
        kafka = FakeKafka({"sentences": 1, "word-counts": 2})
        kafka.produce("sentences", "the cow jumped over the moon")
        local_cluster(each, kafka=kafka).run_until_idle()
        found.append(
            sorted((record.key(), record.partition()) for record in kafka.records("word-counts"))
        )
    assert found[0] == found[1]
    assert len(found[0]) == 6
