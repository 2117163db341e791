"""Partition 0 of the tests' topic, and the stored offset of an earlier process."""

from kstorm.kafka import StoredOffset
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.ports import Broker, Partition

ZERO = Partition("sentences", 0)
BROKER = Broker("broker", 9092)


def stored(offset: int, topology_id: str = "words-1", leader: Broker = BROKER) -> StoredOffset:
    """Builds its offset, stored by a deployment of the topology `words`."""
    return StoredOffset.of(TopologyRef(topology_id, "words"), ZERO, offset, leader)
