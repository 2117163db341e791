"""What the code of a topology fixes of a deployment: the chart's values repeat it, and `kstorm prepare` compares."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from kstorm.errors import ConfigError
from kstorm.kafka import KafkaBolt, KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.topology import Stateful, Topology


class ComponentShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the chart needs to know of one spout or bolt."""

    kind: Literal["spout", "bolt"]
    tasks: int
    stateful: bool = False
    """Whether it has a `KeyValueState`, and so wants a disk and a name to come back under."""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Of a topology. As JSON its names are in camel case, as Helm's values are."""

    topology_name: str
    components: Mapping[str, ComponentShape]
    acker_tasks: int

    def differences(self, code: "Shape") -> Iterator[str]:
        """Every place where these values and the code's differ, with both sides."""
        if self.topology_name != code.topology_name:
            yield _both("topologyName", self.topology_name, code.topology_name)
        if self.acker_tasks != code.acker_tasks:
            yield _both("ackers.tasks", self.acker_tasks, code.acker_tasks)
        for id in sorted(self.components.keys() - code.components.keys()):
            yield f"components.{id} is in the values, but not in the code"
        for id, coded in code.components.items():
            if id not in self.components:
                yield f"components.{id} is in the code, but not in the values"
                continue
            for name in ComponentShape.__struct_fields__:
                said, is_so = getattr(self.components[id], name), getattr(coded, name)
                if said != is_so:
                    yield _both(f"components.{id}.{name}", said, is_so)


def shape_of(topology: Topology) -> Shape:
    """The shape of a topology that was loaded."""
    return Shape(
        topology_name=topology.name,
        components={
            id: ComponentShape(spec.kind, spec.num_tasks, isinstance(spec.component, Stateful))
            for id, spec in topology.components.items()
        },
        acker_tasks=topology.config.acker_tasks,
    )


def parse_shape(text: str) -> Shape:
    """Reads what the chart gives for `--values`; raises `ConfigError` on anything else."""
    try:
        return msgspec.json.decode(text, type=Shape)
    except msgspec.DecodeError as error:
        raise ConfigError(f"--values is not what the chart gives there: {error}") from None


def sources_of(topology: Topology) -> dict[str, int]:
    """Topics that KafkaSpouts read from the deployment's own Kafka, with the spout's task count; patterns are left out."""
    return {
        spec.component.spout_config.topic: spec.num_tasks
        for spec in topology.spouts
        if isinstance(spec.component, KafkaSpout) and _reads_one_topic_here(spec.component.spout_config)
    }


def sinks_of(topology: Topology) -> dict[str, int]:
    """Topics that KafkaBolts always write in the deployment's own Kafka, with the bolt's task count; those that are chosen per
    tuple are left out."""
    return {
        spec.component.topic: spec.num_tasks
        for spec in topology.bolts
        if isinstance(spec.component, KafkaBolt) and spec.component.topic and _writes_here(spec.component)
    }


def _reads_one_topic_here(config: SpoutConfig) -> bool:
    here = isinstance(config.hosts, KafkaHosts) and config.hosts.bootstrap_servers is None
    return here and not config.kafka_topic_wildcard_match


def _writes_here(bolt: KafkaBolt) -> bool:
    return "bootstrap.servers" not in (bolt.producer_properties or {})


def _both(name: str, said: object, is_so: object) -> str:
    return f"{name} is {said!r} in the values and {is_so!r} in the code"
