"""Settings of each topic that a topology owns. docs/reference/topics.md lists them, and a test compares the
two.

Settings that a guarantee depends on are set explicitly, regardless of the brokers' defaults.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kstorm.core.record_size import MAX_RECORD_BYTES
from kstorm.topology import Topology

DAY_MS: Final = 24 * 3600 * 1000
_CENTURY_MS: Final = 100 * 365 * DAY_MS
# Kafka's default. The client does not send longer batches, except for a single longer frame.
_RECORD_BYTES: Final = 1_048_588
_FRAME_OVERHEAD: Final = 64 * 1024
_SAFE_REPLICAS: Final = 3

# kstorm does not compress its records. With this setting, the broker decompresses the batches of
# other writers and rejects those that are too large. Otherwise each reader would have to decompress
# a batch of 1 MB to perhaps 1 GB.
_OPENED: Final[Mapping[str, str]] = {"compression.type": "uncompressed"}

CHANGELOG: Final[Mapping[str, str]] = {
    **_OPENED,
    "cleanup.policy": "compact",
    "delete.retention.ms": str(DAY_MS),
    "max.message.bytes": str(MAX_RECORD_BYTES),
    "min.cleanable.dirty.ratio": "0.2",
    "segment.ms": str(3600 * 1000),
}


class TopicPlan(NamedTuple):
    partitions: int
    settings: Mapping[str, str]


def topic_plans(topology: Topology, replication_factor: int) -> dict[str, TopicPlan]:
    """Return the plan of every topic that the topology owns, by name."""
    hours = topology.config.topology_trace_retention_hours
    frames = _frames(
        max(spec.config.topology_frame_max_bytes for spec in topology.components.values()), hours
    )
    others = {
        topology.dead_letters_topic: _dead_letters(topology),
        topology.finished_topic: _finished(topology),
        topology.events_topic: _kept("delete", None),
        topology.orders_topic: {**_kept("compact", None), "segment.ms": str(3600 * 1000)},
    }
    replication = _replication(replication_factor)
    return {
        name: TopicPlan(count, {**others.get(name, frames), **replication})
        for name, count in topology.topics().items()
    } | {
        name: TopicPlan(count, {**CHANGELOG, **replication})
        for name, count in topology.changelogs().items()
    }


def _frames(largest: int, hours: float) -> dict[str, str]:
    """Settings for tuples, acks and completions. After they are read, they only serve to trace
    messages."""
    return {
        **_OPENED,
        "cleanup.policy": "delete",
        "retention.ms": str(int(hours * 3_600_000)),
        "retention.bytes": "-1",
        "max.message.bytes": str(max(_RECORD_BYTES, largest + _FRAME_OVERHEAD)),
    }


def _dead_letters(topology: Topology) -> dict[str, str]:
    """Settings for dead letters, which may be the only remaining copy of a message.

    The topic is compacted, so that Kafka deletes a discarded letter within a day after the next one
    arrives. Tombstones are kept for as long as audits need them.
    """
    seconds = topology.config.topology_dead_letters_retention_secs
    audited = topology.config.topology_finished_retention_secs
    return {
        **_kept("compact" if seconds is None else "compact,delete", seconds),
        "delete.retention.ms": str(int(_CENTURY_MS if audited is None else audited * 1000)),
        "max.compaction.lag.ms": str(DAY_MS),
        "segment.ms": str(3600 * 1000),
    }


def _finished(topology: Topology) -> dict[str, str]:
    """Settings for the outcomes of offsets. The topic is compacted, because a range may be written
    twice."""
    return _kept("compact,delete", topology.config.topology_finished_retention_secs)


def _kept(policy: str, seconds: float | None) -> dict[str, str]:
    return {
        **_OPENED,
        "cleanup.policy": policy,
        "retention.ms": "-1" if seconds is None else str(int(seconds * 1000)),
        "retention.bytes": "-1",
        "max.message.bytes": str(_RECORD_BYTES),
    }


def _replication(factor: int) -> dict[str, str]:
    """Require two in-sync replicas if enough brokers exist to tolerate the loss of one."""
    return {"min.insync.replicas": "2"} if factor >= _SAFE_REPLICAS else {}
