"""The three kinds of hosts, which define how the spout finds brokers and partitions."""

from collections.abc import Callable

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import (
    Broker,
    BrokerHosts,
    GlobalPartitionInformation,
    KafkaHosts,
    Partition,
    SpoutConfig,
    StaticHosts,
    ZkHosts,
)
from kstorm.kafka.hosts import bootstrap_servers, topics_matching
from kstorm.kafka.ports import UNKNOWN_BROKER


def information(topic: str = "t") -> GlobalPartitionInformation:
    """Builds three partitions on two brokers, added in no order."""
    made = GlobalPartitionInformation(topic)
    made.add_partition(2, Broker("b", 9092))
    made.add_partition(0, Broker("a", 9092))
    made.add_partition(1, Broker.from_string("b:9092"))
    return made


def test_storms_defaults() -> None:
    """The path is `/brokers`, and the refresh interval is 60 seconds."""
    hosts = ZkHosts("zookeeper:2181/kafka")
    assert (hosts.zk_connect, hosts.broker_zk_path, hosts.refresh_freq_secs) == (
        "zookeeper:2181/kafka",
        "/brokers",
        60,
    )
    assert KafkaHosts().refresh_freq_secs == 60
    assert all(issubclass(kind, BrokerHosts) for kind in (KafkaHosts, ZkHosts, StaticHosts))


def test_partitions_are_in_order() -> None:
    """The order of their addition does not matter. Each has its leader."""
    assert information().get_ordered_partitions() == [
        Partition("t", 0),
        Partition("t", 1),
        Partition("t", 2),
    ]
    assert information().get_broker_for(2) == Broker("b", 9092)
    assert information().get_broker_for(3) is None


def test_static_hosts_name_the_brokers_to_connect_to() -> None:
    """Each broker appears once. A partition without a leader has none."""
    assert StaticHosts(information()).bootstrap_servers == "a:9092,b:9092"
    without = GlobalPartitionInformation("u", {0: UNKNOWN_BROKER})
    assert bootstrap_servers([information(), without]) == "a:9092,b:9092"
    assert bootstrap_servers([without]) == ""


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ZkHosts(""), "has no connect string"),
        (lambda: ZkHosts("z:2181", "brokers"), "broker_zk_path is 'brokers'"),
        (lambda: ZkHosts("z:2181", "/"), "broker_zk_path is '/'"),
        (lambda: ZkHosts("z:2181", refresh_freq_secs=0), "refresh_freq_secs is 0"),
        (lambda: KafkaHosts(refresh_freq_secs=float("nan")), "refresh_freq_secs is nan"),
        (lambda: StaticHosts(GlobalPartitionInformation("t")), "topic 't' has no partitions"),
        (
            lambda: StaticHosts(GlobalPartitionInformation("t", {-1: UNKNOWN_BROKER})),
            "has partition -1",
        ),
        (lambda: Broker.from_string("kafka"), "address 'kafka' is invalid: give host:port"),
        (lambda: Broker.from_string(":9092"), "address ':9092' is invalid: give host:port"),
    ],
)
def test_hosts_that_cannot_be_are_refused(make: Callable[[], object], complaint: str) -> None:
    """The error names the value."""
    with pytest.raises(ConfigError, match=complaint):
        make()


def test_static_hosts_and_the_config_name_the_same_topic() -> None:
    """StaticHosts do no look-ups, so they accept no regular expression."""
    hosts = StaticHosts(information("t"))
    with pytest.raises(
        ConfigError, match="topic is 'u', but StaticHosts has the partitions of 't'"
    ):
        SpoutConfig(hosts, "u", "/r", "i")
    with pytest.raises(ConfigError, match="StaticHosts cannot find topics"):
        SpoutConfig(hosts, "t", "/r", "i", kafka_topic_wildcard_match=True)
    assert SpoutConfig(hosts, "t", "/r", "i").hosts is hosts


def test_an_expression_matches_whole_names() -> None:
    """The matches are in order of the names, without Kafka's own topics."""
    names = ["logs-b", "logs-a", "old-logs-a", "logs-a-old", "__consumer_offsets", "logs-"]
    assert topics_matching("logs-[ab]", names) == ["logs-a", "logs-b"]
    assert topics_matching(".*", names) == ["logs-", "logs-a", "logs-a-old", "logs-b", "old-logs-a"]
    assert topics_matching("a|logs-a", names) == ["logs-a"]


def test_invalid_regular_expression_is_refused() -> None:
    """The error names the place in the expression."""
    with pytest.raises(
        ConfigError, match=r"topic is 'logs-\(', which is not a regular expression: missing \)"
    ):
        SpoutConfig(KafkaHosts(), "logs-(", "/r", "i", kafka_topic_wildcard_match=True)
    assert SpoutConfig(KafkaHosts(), "logs-(", "/r", "i").topic == "logs-("


def test_each_topic_of_an_expression_has_a_node() -> None:
    """The path is Storm's for a spout on one topic."""
    assert SpoutConfig(KafkaHosts(), "t", "/r", "i").zk_path_of("t") == "/r/i"
    several = SpoutConfig(KafkaHosts(), ".*", "/r", "i", kafka_topic_wildcard_match=True)
    assert (several.zk_path_of("t"), several.zk_path_of("u")) == ("/r/i/t", "/r/i/u")
