"""Ways for a `KafkaSpout` to find the brokers and partitions of its topic: Storm's `BrokerHosts`.

`KafkaHosts` queries Kafka itself and is the recommended choice. `ZkHosts` reads the ZooKeeper of a
Kafka that still has one (up to 3.9). `StaticHosts` does no look-ups. In any case the Kafka client
follows the leaders once a partition is read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kstorm.errors import ConfigError
from kstorm.fitting import Natural, Text, check_fields, checked
from kstorm.kafka.cluster import Broker, Partition


class BrokerHosts:
    """Base class of `KafkaHosts`, `ZkHosts` and `StaticHosts`."""

    __slots__ = ()

    refresh_freq_secs: float = 60.0
    """Seconds between two look-ups of partitions (not for `StaticHosts`), and before the next
    attempt to start a partition that could not be started."""


@dataclass(frozen=True, slots=True)
class KafkaHosts(BrokerHosts):
    """Queries Kafka for partitions and leaders. Raises `ConfigError` if a value is out of range."""

    bootstrap_servers: Text | None = None
    """`host:port,…` of some brokers. None: the service's own (`KSTORM_BOOTSTRAP_SERVERS`)."""

    refresh_freq_secs: float = 60.0
    """Seconds between two look-ups of partitions. New partitions and topics are found within this
    time."""

    def __post_init__(self) -> None:
        check_fields(self)
        _check_refresh(self.refresh_freq_secs)


@dataclass(frozen=True, slots=True)
class ZkHosts(BrokerHosts):
    """Finds brokers, partitions and leaders in the ZooKeeper of a Kafka up to 3.9.

    These nodes are world-readable, so kstorm does not log in. A Kafka without ZooKeeper (KRaft)
    does not register anything there, and the spout reports an error with that cause. Raises
    `ConfigError` if a value is out of range.
    """

    zk_connect: str
    """`host:port,…` of Kafka's ZooKeeper, followed by Kafka's chroot (`/kafka`) if it has one."""

    broker_zk_path: str = "/brokers"
    """The node under which Kafka keeps `ids` and `topics`."""

    refresh_freq_secs: float = 60.0
    """Seconds between two look-ups of partitions. New partitions and topics are found within this
    time."""

    tls: bool = True
    """Apply `KSTORM_ZOOKEEPER_TLS`, if set, to this ZooKeeper too. False: connect without TLS."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.zk_connect:
            raise ConfigError("ZkHosts has no connect string: give host:port of Kafka's ZooKeeper")
        if not self.broker_zk_path.startswith("/") or self.broker_zk_path.endswith("/"):
            raise ConfigError(
                f"broker_zk_path is {self.broker_zk_path!r}: it must start with '/' and not end "
                "with one; Kafka's is '/brokers'"
            )
        _check_refresh(self.refresh_freq_secs)


@dataclass(slots=True)
class GlobalPartitionInformation:
    """The partitions of one topic and their leaders. Iterates over the partitions in order.

    Raises `ConfigError` for a value of another type.
    """

    topic: Text
    partition_map: dict[int, Broker] = field(default_factory=dict)
    """The leaders by partition number."""

    def __post_init__(self) -> None:
        check_fields(self)

    @checked()
    def add_partition(self, partition: Natural, broker: Broker) -> None:
        """Set the leader of a partition."""
        self.partition_map[partition] = broker

    @checked()
    def get_broker_for(self, partition: Natural) -> Broker | None:
        """Return the leader of a partition, or None if the topic does not have the partition."""
        return self.partition_map.get(partition)

    def get_ordered_partitions(self) -> list[Partition]:
        """Return the partitions ordered by number."""
        return list(self)

    def __iter__(self) -> Iterator[Partition]:
        return (Partition(self.topic, number) for number in sorted(self.partition_map))


@dataclass(frozen=True, slots=True)
class StaticHosts(BrokerHosts):
    """Reads exactly these partitions, without look-ups (Storm's `StaticHosts`).

    The client connects to the listed brokers first. Raises `ConfigError` without partitions or if a
    partition number is negative.
    """

    partition_information: GlobalPartitionInformation

    def __post_init__(self) -> None:
        check_fields(self)
        information = self.partition_information
        if not information.partition_map:
            raise ConfigError(
                f"StaticHosts of topic {information.topic!r} has no partitions: add them with "
                "add_partition"
            )
        if (lowest := min(information.partition_map)) < 0:
            raise ConfigError(
                f"StaticHosts of topic {information.topic!r} has partition {lowest}: partition "
                "numbers start at 0"
            )

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the listed brokers, each once."""
        return bootstrap_servers([self.partition_information])


def bootstrap_servers(found: Iterable[GlobalPartitionInformation]) -> str:
    """Return `host:port,…` of all known brokers that lead a partition, each once, or ""."""
    brokers = {broker for information in found for broker in information.partition_map.values()}
    return ",".join(str(broker) for broker in sorted(brokers) if broker.host)


def topics_matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the topics whose whole name matches the regular expression, sorted by name.

    Topics that begin with `__`, such as Kafka's own, never match.
    """
    whole = re.compile(pattern)
    return sorted(
        topic for topic in topics if not topic.startswith("__") and whole.fullmatch(topic)
    )


def _check_refresh(refresh_freq_secs: float) -> None:
    if not refresh_freq_secs > 0:
        raise ConfigError(f"refresh_freq_secs is {refresh_freq_secs}: it must be above 0")
