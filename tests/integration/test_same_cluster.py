"""An exactly-once spout must read from the Kafka of its topology."""

from pathlib import Path

import pytest

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import ConfigError
from kstorm.kafka import GlobalPartitionInformation, KafkaHosts, SpoutConfig, StaticHosts
from kstorm.kafka.hosts import BrokerHosts
from kstorm.kafka.ports import Broker
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.same_cluster import check_same_cluster


def check(kafka: EmbeddedKafka, hosts: BrokerHosts) -> None:
    """Check a spout that reads the topic `in` there, in a topology on this Kafka."""
    settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    check_same_cluster("lines", SpoutConfig(hosts, "in", "/kstorm", "words"), settings)


def static(bootstrap: str) -> StaticHosts:
    information = GlobalPartitionInformation("in")
    information.add_partition(0, Broker.from_string(bootstrap))
    return StaticHosts(information)


@pytest.mark.slow
def test_other_kafka_is_refused(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The error has both addresses and the remedy. Another name of the same Kafka is accepted."""
    port = kafka.bootstrap.rpartition(":")[2]
    check(kafka, KafkaHosts())
    check(kafka, KafkaHosts(f"localhost:{port}"))
    check(kafka, static(kafka.bootstrap))
    with EmbeddedKafka(tmp_path, quick_start=True) as other:
        for hosts in (KafkaHosts(other.bootstrap), static(other.bootstrap)):
            with pytest.raises(
                ConfigError, match=r"'lines' reads 'in' from the Kafka at .*Mirror the topic"
            ):
                check(kafka, hosts)
