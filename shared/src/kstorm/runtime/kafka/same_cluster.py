"""Checks that an exactly-once spout reads from the Kafka cluster of its topology.

Its position in the source is committed in the same transaction as its output, and a transaction
cannot include another cluster.
"""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.hosts import ZkHosts, bootstrap_servers
from kstorm.runtime.base.client_log import CLIENT_LOG
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.source_properties import consumer_properties

_ANSWER_SECS: Final = 20.0


def check_same_cluster(component: str, config: SpoutConfig, settings: Settings) -> None:
    """Compare the cluster ids unless the bootstrap servers are equal. Blocks.

    Raises `ConfigError` if the spout reads another cluster, `BrokerError` if a cluster does not
    respond.
    """
    own = settings.client_config
    properties = consumer_properties(config, own)
    if isinstance(config.hosts, ZkHosts) and "bootstrap.servers" not in config.kafka_properties:
        properties["bootstrap.servers"] = _brokers_in_zookeeper(
            config, config.hosts, properties, settings
        )
    if properties["bootstrap.servers"] == own["bootstrap.servers"]:
        return
    source, ours = _cluster_id(properties), _cluster_id({**own, "group.id": config.id})
    if source != ours:
        raise ConfigError(
            f"the spout {component!r} reads {config.topic!r} from the Kafka at "
            f"{properties['bootstrap.servers']} (cluster {source}), but its topology uses "
            f"exactly_once on the Kafka at {own['bootstrap.servers']} (cluster {ours}): its "
            "position cannot be committed together with its output. Mirror the topic to the "
            "topology's Kafka and read it there, run the topology on the source's Kafka, or "
            "choose at_least_once"
        )


def _cluster_id(properties: Mapping[str, Any]) -> str:
    consumer = Consumer({**properties, "logger": CLIENT_LOG})
    try:
        return str(consumer.list_topics(timeout=_ANSWER_SECS).cluster_id)
    except KafkaException as error:
        raise BrokerError(
            f"Kafka at {properties['bootstrap.servers']} did not return its cluster id: "
            f"{error.args[0].str()}"
        ) from None
    finally:
        consumer.close()


def _brokers_in_zookeeper(
    config: SpoutConfig, hosts: ZkHosts, properties: Mapping[str, Any], settings: Settings
) -> str:
    from kstorm.runtime.zookeeper.registered_brokers import (
        DynamicBrokersReader,
    )  # avoids the dependency on kazoo

    protocol = str(properties.get("security.protocol", "plaintext"))
    reader = DynamicBrokersReader(
        hosts,
        security_protocol=protocol,
        wildcard=config.kafka_topic_wildcard_match,
        tls=settings.zookeeper_tls,
    )
    return bootstrap_servers(reader.get_broker_info(config.topic))
