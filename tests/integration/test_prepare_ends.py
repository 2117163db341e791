"""`kstorm prepare` checks source and sink topics before anything is created or started."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # its stubs hide some

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import BrokerError
from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper,
    GlobalPartitionInformation,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SpoutConfig,
    StaticHosts,
)
from kstorm.kafka.hosts import BrokerHosts
from kstorm.kafka.ports import Broker
from kstorm.operations.status.endpoint_checks import endpoint_faults
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic
from kstorm.topology import Topology, TopologyBuilder
from tests.integration.secured import STRANGER, Secured


def build(
    name: str, hosts: BrokerHosts, *, pattern: str = "", sink: KafkaBolt | None = None
) -> Topology:
    """Return a topology from `<name>-in`, or the topics that match a pattern, to `<name>-out`."""
    builder = TopologyBuilder(name)
    config = SpoutConfig(
        hosts, pattern or f"{name}-in", "/kstorm", name, kafka_topic_wildcard_match=bool(pattern)
    )
    builder.set_spout("lines", KafkaSpout(config))
    sink = (sink or KafkaBolt()).with_tuple_to_kafka_mapper(
        FieldNameBasedTupleToKafkaMapper("key", "bytes")
    )
    builder.set_bolt("sink", sink.with_topic_selector(f"{name}-out")).shuffle_grouping("lines")
    return builder.build()


@pytest.fixture
def settings(kafka: EmbeddedKafka) -> Settings:
    """The settings for the session's Kafka."""
    return Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A Kafka that is not the topology's."""
    with EmbeddedKafka(tmp_path, name="other", quick_start=True) as server:
        yield server


def static(topic: str, bootstrap: str, *numbers: int) -> StaticHosts:
    """Return these partitions, all with one broker as leader."""
    return StaticHosts(
        GlobalPartitionInformation(topic, dict.fromkeys(numbers, Broker.from_string(bootstrap)))
    )


def test_pattern_needs_one_matching_topic(settings: Settings, topic_prefix: str) -> None:
    """The topology's own topics do not count, because its spout does not read them."""
    topology = build(topic_prefix, KafkaHosts(), pattern=f"{topic_prefix}[.-].*[kn]")
    for mine in (f"{topic_prefix}.sink", f"{topic_prefix}-out"):
        create_topic(settings, mine, 1)
    (wrong,) = endpoint_faults(topology, settings)
    assert f"reads every topic that matches '{topic_prefix}[.-].*[kn]', but Kafka at" in wrong
    create_topic(settings, f"{topic_prefix}-in", 1)
    assert list(endpoint_faults(topology, settings)) == []


@pytest.mark.slow
def test_source_and_sink_of_another_kafka(
    settings: Settings, other: EmbeddedKafka, topic_prefix: str
) -> None:
    """If it does not respond, the error names it and its user."""
    for end in ("in", "out"):
        create_topic(settings, f"{topic_prefix}-{end}", 1)
    sink = KafkaBolt().with_producer_properties({"bootstrap.servers": other.bootstrap})
    topology = build(topic_prefix, KafkaHosts(other.bootstrap), sink=sink)
    reads, writes = endpoint_faults(topology, settings)
    assert f"'{topic_prefix}-in', but Kafka at {other.bootstrap} has no such topic" in reads
    assert f"'{topic_prefix}-out', but Kafka at {other.bootstrap} has no such topic" in writes
    there = Settings(topology="", bootstrap_servers=other.bootstrap)
    for end in ("in", "out"):
        create_topic(there, f"{topic_prefix}-{end}", 1)
    assert list(endpoint_faults(topology, settings)) == []
    away = build(topic_prefix, KafkaHosts(f"127.0.0.1:{reserve_port()}"))
    with pytest.raises(
        BrokerError, match="the spout 'lines' reads at another Kafka: no Kafka broker answered at"
    ):
        list(endpoint_faults(away, settings))


@pytest.mark.slow
def test_missing_partitions_are_named(
    settings: Settings, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    for end in ("in", "out"):
        create_topic(settings, f"{topic_prefix}-{end}", 2)
    source = f"{topic_prefix}-in"
    assert (
        list(endpoint_faults(build(topic_prefix, static(source, kafka.bootstrap, 0, 1)), settings))
        == []
    )
    (wrong,) = endpoint_faults(
        build(topic_prefix, static(source, kafka.bootstrap, 0, 2, 5)), settings
    )
    assert (
        f"reads the partitions [2, 5] of the topic '{source}', which has 2 at {kafka.bootstrap}"
        in wrong
    )


@pytest.mark.slow
def test_missing_rights_on_topics_are_named(tmp_path: Path, topic_prefix: str) -> None:
    """The error has the right and the user.

    If the topic is invisible, it has no further details.
    """
    secured = Secured(tmp_path)
    with secured.kafka:
        plain = Settings(topology="", bootstrap_servers=secured.kafka.bootstrap)
        for end in ("in", "out"):
            create_topic(plain, f"{topic_prefix}-{end}", 1)
        login = secured.properties(sasl_username=STRANGER)
        settings = replace(
            plain, bootstrap_servers=secured.kafka.secure("valid"), kafka_properties=login
        )
        topology = build(topic_prefix, KafkaHosts())
        secured.let(STRANGER, f"{topic_prefix}-in", AclOperation.DESCRIBE)
        reads, writes = endpoint_faults(topology, settings)
        as_whom = f"allow this user (SASL_SSL, SCRAM-SHA-512 as user '{STRANGER}')"
        unread = f"the topic '{topic_prefix}-in', but is not allowed to: {as_whom} READ on it"
        assert reads.startswith(f"the spout 'lines' reads {unread}")
        unseen = f"the topic '{topic_prefix}-out', but is not even allowed to check that it exists: {as_whom} WRITE on it"
        assert writes.startswith(f"the bolt 'sink' writes {unseen}")
        secured.let(STRANGER, f"{topic_prefix}-in", AclOperation.READ)
        secured.let(STRANGER, f"{topic_prefix}-out", AclOperation.WRITE)
        assert list(endpoint_faults(topology, settings)) == []
