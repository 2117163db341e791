"""`ZkHosts`: brokers, partitions and leaders from the ZooKeeper of a real Kafka 3.9, and from one
without a Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kazoo.client import KazooClient

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka import (
    Broker,
    FieldNameBasedTupleToKafkaMapper,
    KafkaBolt,
    KafkaSpout,
    Partition,
    SpoutConfig,
    ZkHosts,
)
from kstorm.kafka.ports import UNKNOWN_BROKER
from kstorm.operations.status.endpoint_checks import endpoint_faults
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.runtime.zookeeper.registered_brokers import DynamicBrokersReader
from kstorm.topology import TopologyBuilder
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.old_kafka import OldKafka
from tests.integration.spout_process import SpoutProcess, stored_offset


@pytest.fixture(scope="module")
def old_kafka(servers_directory: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[OldKafka]:
    with OldKafka(servers_directory, f"{zookeeper.connect}/old-kafka") as server:
        yield server


@pytest.fixture
def hosts(old_kafka: OldKafka, zookeeper: EmbeddedZooKeeper) -> ZkHosts:
    """The place where this Kafka is registered, with a refresh every half second."""
    return ZkHosts(f"{zookeeper.connect}/old-kafka", refresh_freq_secs=0.5)


@pytest.fixture
def topic(old_kafka: OldKafka, topic_prefix: str) -> Iterator[Topic]:
    """A topic of this Kafka for one test, which creates it."""
    made = Topic(topic_prefix, old_kafka)
    yield made
    made.close()


class Registry:
    """The nodes of a Kafka, written by hand."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
        self.connect = f"{zookeeper.connect}/{chroot}"
        self._client = KazooClient(zookeeper.connect, timeout=10.0)
        self._client.start(timeout=30)
        self._client.ensure_path(chroot)
        self._client.chroot = f"/{chroot}"

    def put(self, path: str, content: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._client.create(path, data, makepath=True)

    def reader(self, **settings: Any) -> DynamicBrokersReader:
        return DynamicBrokersReader(ZkHosts(self.connect), **settings)

    def close(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture
def registry(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[Registry]:
    """A separate chroot in the session's ZooKeeper."""
    made = Registry(zookeeper, topic_prefix)
    yield made
    made.close()


def found(source: KafkaSource, topic: str, eventually: Eventually) -> dict[Partition, Broker]:
    """Return the result of a new look-up."""
    before = source.partitions(topic)
    source.refresh(topic)
    eventually(lambda: source.partitions(topic) is not before, 20)
    return dict(source.partitions(topic) or {})


@pytest.mark.slow
def test_partitions_and_leaders_are_read(
    topic: Topic, hosts: ZkHosts, eventually: Eventually
) -> None:
    """They are sorted, with the registered address of each leader."""
    topic.create(3)

    def leaders() -> dict[Partition, Broker]:
        (information,) = DynamicBrokersReader(hosts).get_broker_info(topic.name)
        return {
            partition: information.partition_map[partition.partition] for partition in information
        }

    everywhere = dict.fromkeys(
        [topic.at(0), topic.at(1), topic.at(2)], Broker.from_string(topic.kafka.bootstrap)
    )
    eventually(lambda: list(leaders().items()) == list(everywhere.items()), 20)


def test_spout_reads_the_kafka_registered_in_zookeeper(
    topic: Topic, hosts: ZkHosts, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper
) -> None:
    """The service's own Kafka has no such topic. Added partitions are found."""
    topic.create().produce(b"old")
    process = SpoutProcess(
        topic, zookeeper.connect, hosts=hosts, client_config={"bootstrap.servers": kafka.bootstrap}
    )
    process.until(lambda: process.collector.values == ["old"])
    admin = AdminClient(topic.client_config)
    admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(30)
    topic.produce(b"new", partition=1)
    process.until(lambda: len(process.collector.values) > 1)
    assert process.collector.values == ["old", "new"]
    assert process.collector.errors == []
    process.stop()
    assert (
        stored_offset(zookeeper.connect, topic)["broker"]
        == Broker.from_string(topic.kafka.bootstrap)._asdict()
    )


@pytest.mark.slow
def test_new_matching_topics_are_found(
    topic: Topic, hosts: ZkHosts, zookeeper: EmbeddedZooKeeper
) -> None:
    """Reading of the first one continues without repetition."""
    process = SpoutProcess(topic, zookeeper.connect, hosts=hosts, pattern=f"{topic.name}-[ab]")
    names = [f"{topic.name}-{letter}" for letter in "bac"]
    for name in names[:2]:
        made = Topic(name, topic.kafka).create()
        made.produce(name.encode())
        process.until(lambda name=name: name in process.collector.values)  # type: ignore[misc]
    Topic(names[2], topic.kafka).create().produce(b"not matched")
    Topic(names[0], topic.kafka).produce(b"more")
    process.until(lambda: "more" in process.collector.values)
    assert process.collector.values == [*names[:2], "more"]
    process.stop()


@pytest.mark.slow
def test_prepare_checks_the_topic_in_zookeeper(
    topic: Topic, hosts: ZkHosts, kafka: EmbeddedKafka
) -> None:
    """The topology's Kafka does not have it."""
    builder = TopologyBuilder("words")
    builder.set_spout("lines", KafkaSpout(SpoutConfig(hosts, topic.name, "/kstorm", "words")))
    sink = KafkaBolt().with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("key", "bytes"))
    builder.set_bolt("sink", sink).shuffle_grouping("lines")
    topology, settings = (
        builder.build(),
        Settings(topology="a:b", bootstrap_servers=kafka.bootstrap),
    )
    (wrong,) = endpoint_faults(topology, settings)
    assert wrong.startswith(
        f"the spout 'lines' reads the topic {topic.name!r}: ZooKeeper at {hosts.zk_connect} has no topic"
    )
    topic.create()
    assert list(endpoint_faults(topology, settings)) == []


@pytest.mark.slow
def test_kafka_without_zookeeper_is_reported(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, topic_prefix: str
) -> None:
    """The error names `KafkaHosts` and the address."""
    process = SpoutProcess(
        Topic(topic_prefix, kafka), zookeeper.connect, hosts=ZkHosts(zookeeper.connect)
    )
    process.until(lambda: process.collector.errors)
    (error,) = process.collector.errors
    assert isinstance(error, BrokerError)
    assert (
        f"ZooKeeper at {zookeeper.connect} has no brokers under /brokers/ids. If this Kafka runs without ZooKeeper"
        in str(error)
    )
    assert "use KafkaHosts(" in str(error)
    process.stop()


@pytest.mark.slow
def test_silent_zookeeper_is_reported(topic_prefix: str) -> None:
    """This takes the time of one look-up. The error has the address."""
    reader = DynamicBrokersReader(ZkHosts(f"127.0.0.1:{reserve_port()}"))
    with pytest.raises(
        BrokerError, match=r"ZooKeeper at 127\.0\.0\.1:\d+ did not return the brokers"
    ):
        reader.get_broker_info(topic_prefix)


def test_malformed_connect_string_is_rejected() -> None:
    config = SpoutConfig(ZkHosts("zookeeper:port"), "t", "", "i")
    with pytest.raises(ConfigError, match="ZkHosts' connect string 'zookeeper:port' is malformed"):
        KafkaSource(config, {})


ENDPOINTS = {
    "host": "plain",
    "port": 9092,
    "endpoints": ["INSIDE://inside:9092", "OUTSIDE://outside:9093"],
    "listener_security_protocol_map": {"INSIDE": "PLAINTEXT", "OUTSIDE": "SASL_SSL"},
}
FIRST = {"version": 1, "host": "plain", "port": 9092}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("registered", "protocol", "address"),
    [
        (ENDPOINTS, "plaintext", "inside:9092"),
        (ENDPOINTS, "sasl_ssl", "outside:9093"),
        ({"endpoints": ["SSL://tls:9094"], "host": None, "port": -1}, "ssl", "tls:9094"),
        (FIRST, "plaintext", "plain:9092"),
    ],
)
def test_listener_matches_the_security_protocol(
    registry: Registry, registered: Any, protocol: str, address: str
) -> None:
    """Early versions of Kafka had one listener."""
    registry.put("/brokers/ids/7", registered)
    registry.put("/brokers/topics/t", {"partitions": {"0": [7]}})
    registry.put("/brokers/topics/t/partitions/0/state", {"leader": 7})
    (information,) = registry.reader(security_protocol=protocol).get_broker_info("t")
    assert information.get_broker_for(0) == Broker.from_string(address)


@pytest.mark.slow
def test_missing_listener_is_reported(registry: Registry) -> None:
    """The error lists the existing ones."""
    registry.put("/brokers/ids/7", ENDPOINTS)
    with pytest.raises(
        BrokerError,
        match=r"no listener for security\.protocol 'ssl'; its listeners are INSIDE://inside:9092, OUTSIDE",
    ):
        registry.reader(security_protocol="ssl").get_broker_info("t")


@pytest.mark.slow
def test_partition_without_a_leader_is_kept(registry: Registry) -> None:
    """It has no state yet, no leader, or a leader that is down."""
    registry.put("/brokers/ids/7", FIRST)
    registry.put("/brokers/topics/t", {"partitions": {"10": [7], "2": [7], "0": [7], "1": [7]}})
    for number, leader in ((1, -1), (2, 8), (10, 7)):
        registry.put(f"/brokers/topics/t/partitions/{number}/state", {"leader": leader, "isr": []})
    (information,) = registry.reader().get_broker_info("t")
    assert [partition.partition for partition in information] == [0, 1, 2, 10]
    assert list(map(information.get_broker_for, (0, 1, 2))) == [UNKNOWN_BROKER] * 3
    assert information.get_broker_for(10) == Broker("plain", 9092)


@pytest.mark.slow
def test_missing_topic_is_named(registry: Registry) -> None:
    """A wildcard without a match is not an error."""
    registry.put("/brokers/ids/7", FIRST)
    registry.put("/brokers/topics/other", {"partitions": {"0": [7]}})
    with pytest.raises(BrokerError, match="has no topic 't' under /brokers/topics: create it"):
        registry.reader().get_broker_info("t")
    assert list(registry.reader(wildcard=True).get_broker_info("t")) == []


@pytest.mark.slow
def test_invalid_node_is_reported(registry: Registry) -> None:
    """The error has the node's path, without a stack trace."""
    registry.put("/brokers/ids/7", b"\xff not json")
    with pytest.raises(
        BrokerError,
        match=r"/brokers/ids/7 in ZooKeeper at .* holds .*not json.*, which Kafka does not write",
    ):
        registry.reader().get_broker_info("t")


@pytest.mark.slow
def test_no_running_broker_is_reported(registry: Registry) -> None:
    """The node exists and is empty."""
    registry.put("/brokers/ids", b"")
    with pytest.raises(BrokerError, match="Otherwise its brokers are down"):
        registry.reader().get_broker_info("t")
