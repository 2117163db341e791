"""Find a spout's offsets, ZooKeeper and Kafka from options and the environment.

The environment variables are those of the services. A spout's pod has them, and needs no option.
"""

from dataclasses import dataclass

from kstorm.kafka import SpoutConfig
from kstorm.kafka.offsets import TopologyRef
from kstorm.runtime.base.settings import Settings


@dataclass(frozen=True, slots=True)
class SpoutOffsets:
    """Topic that a spout reads, and the place of its offsets."""

    config: SpoutConfig
    settings: Settings
    topology: TopologyRef
    """Owner to store with an offset if none is stored yet."""
    group: str | None = None
    """Consumer group with the position of an exactly-once spout.

    "" for other spouts, None if unknown.
    """

    @property
    def zookeeper(self) -> str:
        """Connect string of the ZooKeeper that stores the offsets."""
        return self.config.zk_connect or self.settings.zookeeper

    def root_of(self, topic: str) -> str:
        """Return the node that contains a topic's partitions."""
        return self.config.zk_path_of(topic)
