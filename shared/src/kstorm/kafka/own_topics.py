"""Source and sink topics of a topology in the deployment's own Kafka."""

from kstorm.kafka.bolt import KafkaBolt
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.hosts import KafkaHosts
from kstorm.kafka.spout import KafkaSpout
from kstorm.topology import Topology


def own_sources(topology: Topology) -> dict[str, int]:
    """Map source topics in the deployment's own Kafka to the task count of their spout.

    Topic patterns are left out.
    """
    return {
        spec.component.spout_config.topic: spec.num_tasks
        for spec in topology.spouts
        if isinstance(spec.component, KafkaSpout)
        and _reads_one_topic_here(spec.component.spout_config)
    }


def own_sinks(topology: Topology) -> dict[str, int]:
    """Map sink topics in the deployment's own Kafka to the task count of their bolt.

    Topics that are chosen per tuple are left out.
    """
    return {
        spec.component.topic: spec.num_tasks
        for spec in topology.bolts
        if isinstance(spec.component, KafkaBolt)
        and spec.component.topic
        and _writes_here(spec.component)
    }


def _reads_one_topic_here(config: SpoutConfig) -> bool:
    here = isinstance(config.hosts, KafkaHosts) and config.hosts.bootstrap_servers is None
    return here and not config.kafka_topic_wildcard_match


def _writes_here(bolt: KafkaBolt) -> bool:
    return "bootstrap.servers" not in (bolt.producer_properties or {})
