"""librdkafka's properties for the consumer of a spout."""

import logging
from collections.abc import Mapping
from typing import Any

from kstorm.kafka.config import SPOUTS_OWN_PROPERTIES, SpoutConfig
from kstorm.kafka.hosts import KafkaHosts, StaticHosts, ZkHosts

log = logging.getLogger(__name__)


def consumer_properties(config: SpoutConfig, client_config: Mapping[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        **client_config,
        "group.id": config.id,
        "client.id": config.client_id or config.id,
        "fetch.message.max.bytes": config.fetch_size_bytes,
        # The timeout must exceed the time by which the broker may delay a response.
        "socket.timeout.ms": max(config.socket_timeout_ms, config.fetch_max_wait + 1000),
        "fetch.wait.max.ms": config.fetch_max_wait,
        "socket.receive.buffer.bytes": config.buffer_size_bytes,
        # A few batches are enough. librdkafka's default is 100,000 messages per partition.
        "queued.min.messages": 5000,
        "queued.max.messages.kbytes": 16 * 1024,
        # Pause after the queue is full. In librdkafka's default of one second, the queue would run
        # empty ten times over.
        "fetch.queue.backoff.ms": 10,
        # The consumer is not a member. This limits how long the last commit waits for an
        # unavailable broker.
        "session.timeout.ms": 3000,
    }
    if isinstance(config.hosts, ZkHosts):
        properties.pop("bootstrap.servers", None)  # ZooKeeper returns the brokers
    elif (
        isinstance(config.hosts, KafkaHosts | StaticHosts)
        and config.hosts.bootstrap_servers is not None
    ):
        properties["bootstrap.servers"] = config.hosts.bootstrap_servers
    properties.update(config.kafka_properties)
    for name, value in SPOUTS_OWN_PROPERTIES.items():
        if str(properties.setdefault(name, value)).lower() != str(value).lower():
            log.warning(
                "the spout %r uses %s=%s regardless of the process's Kafka properties, because it "
                "stores its offsets itself",
                config.id,
                name,
                str(value).lower(),
            )
        properties[name] = value
    return properties
