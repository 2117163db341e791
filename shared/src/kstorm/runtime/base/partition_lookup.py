"""The interface by which a spout looks up its partitions: in Kafka, in ZooKeeper or in
`StaticHosts`."""

from collections.abc import Sequence
from typing import Final, Protocol

from kstorm.errors import BrokerError
from kstorm.kafka.hosts import GlobalPartitionInformation

LOOK_UP_SECS: Final = 5.0


class NoTopicError(BrokerError):
    """The cluster does not have the requested topic."""


class BrokersReader(Protocol):
    """Finds the partitions of a topic, or of all topics that match a regular expression. Blocks."""

    def get_broker_info(self, topic: str) -> Sequence[GlobalPartitionInformation]:
        """Return the partitions and leaders of each topic, ordered by topic name.

        Empty if no topic matches. Raises `NoTopicError` if a topic given by name does not exist,
        and `BrokerError` if no broker responds.
        """
