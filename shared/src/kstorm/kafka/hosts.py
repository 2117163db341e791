"""Where a `KafkaSpout` finds the brokers and partitions of its topic: Storm's `BrokerHosts`.

`KafkaHosts` asks Kafka itself and is what to use. `ZkHosts` reads the ZooKeeper of a Kafka that still has one (up to
3.9). `StaticHosts` asks nobody. Whichever it is, leaders are followed by the Kafka client once a partition is read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kstorm.errors import ConfigError
from kstorm.kafka.cluster import Broker, Partition


class BrokerHosts:
    """One of `KafkaHosts`, `ZkHosts` and `StaticHosts`."""

    __slots__ = ()

    refresh_freq_secs: float = 60.0
    """Seconds between two looks at the partitions, where there is a second; and the rest of a partition that cannot be
    started."""


@dataclass(frozen=True, slots=True)
class KafkaHosts(BrokerHosts):
    """Finds partitions and their leaders by asking Kafka itself. Raises `ConfigError` on a value out of range."""

    bootstrap_servers: str | None = None
    """`host:port,…` of some brokers. None: the service's own (`KSTORM_BOOTSTRAP_SERVERS`)."""

    refresh_freq_secs: float = 60.0
    """Seconds between two looks at the topic's partitions; a new partition, or a new topic, is found within this."""

    def __post_init__(self) -> None:
        _check_refresh(self.refresh_freq_secs)


@dataclass(frozen=True, slots=True)
class ZkHosts(BrokerHosts):
    """Finds brokers, partitions and leaders in the ZooKeeper in which a Kafka up to 3.9 registers them.

    What it reads anyone may read, so it logs in nowhere. A Kafka without ZooKeeper (KRaft) registers nothing there; the
    spout then reports an error that says so. Raises `ConfigError` on a value out of range.
    """

    zk_connect: str
    """`host:port,…` of Kafka's ZooKeeper, with Kafka's chroot (`/kafka`) behind if it has one."""

    broker_zk_path: str = "/brokers"
    """The node under which Kafka keeps `ids` and `topics`."""

    refresh_freq_secs: float = 60.0
    """Seconds between two looks at the topic's partitions; a new partition, or a new topic, is found within this."""

    tls: bool = True
    """Whether `KSTORM_ZOOKEEPER_TLS`, where it is set, says how to connect to this ZooKeeper too; False: it has no TLS."""

    def __post_init__(self) -> None:
        if not self.zk_connect:
            raise ConfigError(
                "ZkHosts without a connect string: give host:port of Kafka's ZooKeeper"
            )
        if not self.broker_zk_path.startswith("/") or self.broker_zk_path.endswith("/"):
            raise ConfigError(
                f"broker_zk_path is {self.broker_zk_path!r}: it must start with '/' and not end with one; Kafka's is '/brokers'"
            )
        _check_refresh(self.refresh_freq_secs)


@dataclass(slots=True)
class GlobalPartitionInformation:
    """The partitions of one topic, and the broker that leads each; iterates over the partitions in order."""

    topic: str
    partition_map: dict[int, Broker] = field(default_factory=dict)
    """The leaders by number of partition."""

    def add_partition(self, partition: int, broker: Broker) -> None:
        """Says who leads a partition."""
        self.partition_map[partition] = broker

    def get_broker_for(self, partition: int) -> Broker | None:
        """Who leads a partition; None if the topic has no such one."""
        return self.partition_map.get(partition)

    def get_ordered_partitions(self) -> list[Partition]:
        """The partitions by number."""
        return list(self)

    def __iter__(self) -> Iterator[Partition]:
        return (Partition(self.topic, number) for number in sorted(self.partition_map))


@dataclass(frozen=True, slots=True)
class StaticHosts(BrokerHosts):
    """Reads exactly these partitions, for ever: nobody is asked which there are (Storm's `StaticHosts`).

    The brokers named are those to connect to first. Raises `ConfigError` if there is none, or a partition below 0.
    """

    partition_information: GlobalPartitionInformation

    def __post_init__(self) -> None:
        information = self.partition_information
        if not information.partition_map:
            raise ConfigError(
                f"StaticHosts of topic {information.topic!r} has no partitions: add them by add_partition"
            )
        if (lowest := min(information.partition_map)) < 0:
            raise ConfigError(
                f"StaticHosts of topic {information.topic!r} has partition {lowest}: they count from 0"
            )

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the brokers named, each once."""
        return bootstrap_servers([self.partition_information])


def bootstrap_servers(found: Iterable[GlobalPartitionInformation]) -> str:
    """`host:port,…` of all brokers that lead a partition there, each once; "" if none is known."""
    brokers = {broker for information in found for broker in information.partition_map.values()}
    return ",".join(str(broker) for broker in sorted(brokers) if broker.host)


def topics_matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """The topics whose whole name the regular expression matches, by name.

    Kafka's own and others that begin with `__` are not among them, whatever the expression.
    """
    whole = re.compile(pattern)
    return sorted(
        topic for topic in topics if not topic.startswith("__") and whole.fullmatch(topic)
    )


def _check_refresh(refresh_freq_secs: float) -> None:
    if not refresh_freq_secs > 0:
        raise ConfigError(f"refresh_freq_secs is {refresh_freq_secs}: it must be above 0")
