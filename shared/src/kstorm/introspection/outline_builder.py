"""Make the outline of a topology whose code is available."""

from collections.abc import Iterator
from math import inf
from typing import Final

from kstorm.introspection.outline import (
    Outline,
    OutlineComponent,
    OutlineEdge,
    RetryPolicy,
    SpoutSource,
)
from kstorm.kafka import (
    ExponentialBackoffRetryManager,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SpoutConfig,
)
from kstorm.topology import Topology
from kstorm.topology.groupings import FieldsGrouping, Grouping

_DEFAULT_RETRIES: Final = SpoutConfig.__dataclass_fields__["failed_message_retry_manager"].default


def outline_of(topology: Topology) -> Outline:
    return Outline(
        topology.name,
        list(_components(topology)),
        [
            OutlineEdge(
                each.component, each.stream, bolt.id, str(each.grouping), _grouped_by(each.grouping)
            )
            for bolt in topology.bolts
            for each in bolt.inputs
        ],
        topology.config.acker_tasks,
        topology.config.exactly_once,
    )


def _grouped_by(grouping: Grouping) -> list[str]:
    return list(grouping.fields) if isinstance(grouping, FieldsGrouping) else []


def _components(topology: Topology) -> Iterator[OutlineComponent]:
    for spec in topology.components.values():
        timeout = spec.config.message_timeout_secs if spec.kind == "spout" else inf
        yield OutlineComponent(
            spec.id,
            spec.kind,
            spec.num_tasks,
            topology.task_ids(spec.id).start,
            None if timeout == inf else timeout,
            _source_of(spec.component.spout_config)
            if isinstance(spec.component, KafkaSpout)
            else None,
            _written_by(spec.component) if isinstance(spec.component, KafkaBolt) else "",
        )


def _written_by(bolt: KafkaBolt) -> str:
    """Return the topic of a bolt on the topology's own Kafka, or ""."""
    elsewhere = "bootstrap.servers" in (bolt.producer_properties or {})
    return "" if elsewhere else bolt.topic or ""


def _source_of(config: SpoutConfig) -> SpoutSource:
    """Return the source that a KafkaSpout with this configuration reads."""
    return SpoutSource(
        config.topic,
        config.zk_root,
        config.id,
        config.kafka_topic_wildcard_match,
        config.zk_connect or "",
        (config.hosts.bootstrap_servers or "") if isinstance(config.hosts, KafkaHosts) else "",
        _retries(config),
    )


def _retries(config: SpoutConfig) -> RetryPolicy | None:
    if config.failed_message_retry_manager not in (
        ExponentialBackoffRetryManager,
        _DEFAULT_RETRIES,
    ):
        return None
    return RetryPolicy(
        config.retry_initial_delay_ms,
        config.retry_delay_multiplier,
        config.retry_delay_max_ms,
        config.retry_limit,
    )
