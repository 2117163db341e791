"""Progress of a KafkaSpout in each partition of its topic, from Kafka and ZooKeeper, as in `kstorm
offsets show`."""

from collections.abc import Sequence

import msgspec

from kstorm.introspection.outline import Outline
from kstorm.operations.offsets.source_log import open_log
from kstorm.operations.traces.topology_traces import offsets_of
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.zookeeper.nodes import open_nodes


class PartitionState(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start: int
    end: int
    stored: int | None
    """Stored offset: the lowest unfinished message. None if none was stored yet."""
    owner: str
    """Owner of the partition's lock, or ""."""
    lag: int | None
    """Messages from the stored offset to the end. None if none was stored yet."""


def partitions_of(settings: Settings, topology: Outline, spout: str) -> Sequence[PartitionState]:
    """Return the partitions of a spout that reads Kafka.

    Raises `KstormError` if Kafka or ZooKeeper do not respond.
    """
    read = offsets_of(topology, spout, settings, topology.readings[spout].config)
    with (
        open_nodes(
            read.zookeeper, read.root_of, settings.zookeeper_auth, settings.zookeeper_tls
        ) as nodes,
        open_log(read) as log,
    ):
        found = []
        for place, there in log.partitions().items():
            node = nodes.read(place)
            stored = None if node.stored is None else node.stored.offset
            lag = None if stored is None else max(0, there.end - max(stored, there.start))
            found.append(
                PartitionState(
                    place.topic,
                    place.partition,
                    there.start,
                    there.end,
                    stored,
                    node.holder or "",
                    lag,
                )
            )
        return found
