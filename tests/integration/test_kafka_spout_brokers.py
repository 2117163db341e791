"""A `KafkaSpout` whose broker hangs or dies: its reports, and where it continues to read."""

from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.kafka import Broker, BrokerHosts, KafkaHosts, ZkHosts
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.integration.old_kafka import OldKafka
from tests.integration.spout_process import FINISHED, SpoutProcess, stored_offset


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KafkaHosts, ZkHosts])
def test_new_leader_is_followed_without_rereading(
    kind: type[BrokerHosts],
    tmp_path: Path,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    eventually: Eventually,
) -> None:
    """The leader is killed with messages in flight, and leads again after its restart.

    These messages are acked normally, every further message is emitted once, and the node names the
    leader.
    """
    connect = f"{zookeeper.connect}/{topic_prefix}"
    with OldKafka(tmp_path, connect) as one, OldKafka(tmp_path, connect, broker=2) as two:
        both = f"{one.bootstrap},{two.bootstrap}"
        admin = AdminClient({"bootstrap.servers": both, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 2, 30)
        for name in (topic_prefix, FINISHED):
            admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2]])])[name].result(30)
        topic, rest = Topic(topic_prefix, one), Topic(topic_prefix, two)
        topic.produce(b"0", b"1", b"2")
        hosts = (
            KafkaHosts(both, 0.5) if kind is KafkaHosts else ZkHosts(connect, refresh_freq_secs=0.5)
        )
        process = SpoutProcess(topic, zookeeper.connect, hosts=hosts)

        def leads(broker: OldKafka) -> bool:
            process.next_tuple()
            known = process.spout._source.partitions(topic.name) or {}
            return known.get(topic.at()) == Broker.from_string(broker.bootstrap)

        process.emit(3)
        process.ack(0)
        process.until_stored(1)
        assert (
            stored_offset(zookeeper.connect, topic)["broker"]
            == Broker.from_string(one.bootstrap)._asdict()
        )
        one.kill()
        eventually(lambda: leads(two), 60)
        rest.produce(b"3")
        process.emit(4)
        process.ack(1, 3)
        process.until_stored(2)
        assert (
            stored_offset(zookeeper.connect, topic)["broker"]
            == Broker.from_string(two.bootstrap)._asdict()
        )
        one.start()

        def in_sync() -> int:
            return len(
                admin.list_topics(topic.name, timeout=10).topics[topic.name].partitions[0].isrs
            )

        eventually(lambda: in_sync() == 2, 60)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic.name, 0)]).result(30)
        eventually(lambda: leads(one), 60)
        topic.produce(b"4")
        process.emit(5)
        assert process.collector.values == ["0", "1", "2", "3", "4"]
        process.ack(2, 4)
        process.stop()
        assert stored_offset(zookeeper.connect, topic)["offset"] == 5


@pytest.mark.slow
def test_hanging_broker_is_noticed_within_the_socket_timeout(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Without `socket_timeout_ms` librdkafka would wait for a minute.

    Afterwards reading continues.
    """
    with EmbeddedKafka(tmp_path) as kafka:
        topic = Topic("frozen", kafka).create()
        topic.produce(b"before")
        process = SpoutProcess(topic, zookeeper.connect, socket_timeout_ms=1500, fetch_max_wait=100)
        process.emit(1)
        kafka.process.pause()
        process.until(lambda: process.collector.errors, 30)
        assert "brokers are down" in str(process.collector.errors[0])
        kafka.process.resume()
        topic.produce(b"after")
        process.emit(2)
        assert process.collector.values == ["before", "after"]
        process.stop()
