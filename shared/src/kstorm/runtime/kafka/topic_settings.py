"""How each topic that a topology owns is set when it is made; docs/topics.md shows it, and a test compares.

What a guarantee depends on is set by name, whatever the brokers' defaults are.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kstorm.core.sizes import MAX_RECORD_BYTES
from kstorm.topology import Topology

DAY_MS: Final = 24 * 3600 * 1000
_CENTURY_MS: Final = 100 * 365 * DAY_MS
_RECORD_BYTES: Final = 1_048_588  # Kafka's own default; the client makes no batch that is longer, but for a longer frame
_FRAME_OVERHEAD: Final = 64 * 1024
_SAFE_REPLICAS: Final = 3

# A batch that a stranger has compressed is opened by the broker, and refused if it holds too much; kstorm's own are not compressed.
# Otherwise each reader would open it, and a batch of 1 MB may be 1 GB then.
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
    """A topic as it should be."""

    partitions: int
    settings: Mapping[str, str]


def plans(topology: Topology, replication_factor: int) -> dict[str, TopicPlan]:
    """Every topic that the topology owns, by name."""
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
    """Tuples, acks, completions: once they are read, of use to who looks for a message."""
    return {
        **_OPENED,
        "cleanup.policy": "delete",
        "retention.ms": str(int(hours * 3_600_000)),
        "retention.bytes": "-1",
        "max.message.bytes": str(max(_RECORD_BYTES, largest + _FRAME_OVERHEAD)),
    }


def _dead_letters(topology: Topology) -> dict[str, str]:
    """The last trace of a message. Compacted, so that one that an operator discards goes, within a day of the next one; that it was
    there is kept for as long as an audit may ask."""
    seconds = topology.config.topology_dead_letters_retention_secs
    audited = topology.config.topology_finished_retention_secs
    return {
        **_kept("compact" if seconds is None else "compact,delete", seconds),
        "delete.retention.ms": str(int(_CENTURY_MS if audited is None else audited * 1000)),
        "max.compaction.lag.ms": str(DAY_MS),
        "segment.ms": str(3600 * 1000),
    }


def _finished(topology: Topology) -> dict[str, str]:
    """What became of each offset. Compacted too, as a range may be written twice."""
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
    """What is acknowledged is on two brokers, if there are enough that one of them may be away."""
    return {"min.insync.replicas": "2"} if factor >= _SAFE_REPLICAS else {}
