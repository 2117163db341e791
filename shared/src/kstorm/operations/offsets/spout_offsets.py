"""The place of a spout's offsets, and its ZooKeeper and Kafka, from options and the environment.

The environment variables are those of the services. They are set in a spout's pod, so that no
option is needed there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstorm.runtime.base.settings import Settings

if TYPE_CHECKING:
    from kstorm.kafka import SpoutConfig
    from kstorm.kafka.offsets import TopologyRef


@dataclass(frozen=True, slots=True)
class SpoutOffsets:
    """The topic that a spout reads, and the place of its offsets."""

    config: "SpoutConfig"
    settings: Settings
    topology: "TopologyRef"
    """Owner to store with an offset if no owner is stored yet."""
    group: str | None = None
    """Consumer group that stores the position of an exactly-once spout.

    It is "" for other spouts, and None if unknown.
    """

    @property
    def zookeeper(self) -> str:
        """Connect string of the ZooKeeper that stores the offsets."""
        return self.config.zk_connect or self.settings.zookeeper

    def root_of(self, topic: str) -> str:
        """Return the node that contains a topic's partitions."""
        return self.config.zk_path_of(topic)
