"""Exactly once while the coordinators of transactions and groups move between brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.conftest import Eventually
from tests.integration import topologies
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, running
from tests.integration.further_brokers import FurtherBroker, replicated
from tests.integration.test_exactly_once import EXACTLY_ONCE
from tests.integration.words import Words

COORDINATORS = ("__transaction_state", "__consumer_offsets")


class Cluster:
    """Two brokers and their admin client."""

    def __init__(self, one: EmbeddedKafka, two: EmbeddedKafka) -> None:
        self.one, self.two = one, two
        self.bootstrap = f"{one.bootstrap},{two.bootstrap}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def complete(self) -> bool:
        """True if both brokers are members."""
        return len(self.admin.list_topics(timeout=10).brokers) == 2

    def create(self, topics: dict[str, int]) -> None:
        """Create topics with a replica on each broker."""
        for future in self.admin.create_topics(
            [NewTopic(name, count, 2) for name, count in topics.items()]
        ).values():
            future.result(30)

    def leaders(self, topic: str) -> set[int]:
        """Return the brokers that lead the topic's partitions."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {partition.leader for partition in found.values()}

    def coordinate(self, brokers: set[int]) -> bool:
        """True if exactly these brokers have the coordinators of transactions and groups."""
        return all(self.leaders(topic) == brokers for topic in COORDINATORS)

    def in_sync(self) -> bool:
        """True if each broker has every record."""
        topics = self.admin.list_topics(timeout=10).topics.values()
        return all(
            len(partition.isrs) == 2 for topic in topics for partition in topic.partitions.values()
        )

    def elect(self) -> None:
        """Make the first replica of each partition its leader again."""
        self.admin.elect_leaders(ElectionType.PREFERRED, None).result(30)


@pytest.fixture
def cluster(tmp_path: Path, eventually: Eventually) -> Iterator[Cluster]:
    """Two running brokers."""
    with (
        EmbeddedKafka(tmp_path, quick_start=True, heap="256m", settings=replicated(2)) as one,
        FurtherBroker(tmp_path, one) as two,
    ):
        cluster = Cluster(one, two)
        eventually(cluster.complete, 60)
        yield cluster


@pytest.mark.long
def test_coordinators_move_during_the_work(
    cluster: Cluster,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They move once because their broker is killed, and once to a broker that is preferred."""
    _name, source, sink = topologies.names(topic_prefix)
    cluster.create({source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
    places = (cluster.one, zookeeper, tmp_path, monkeypatch)
    settings = {**EXACTLY_ONCE, "KSTORM_REPLICATION_FACTOR": "2"}
    with running(
        "wordcount",
        topic_prefix,
        *places,
        bootstrap=cluster.bootstrap,
        settings=settings,
        anew=False,
    ) as engine:
        words = Words(engine)
        assert cluster.coordinate({1, 2})
        with words.fed():
            words.await_progress()
            cluster.two.kill()
            engine.until(lambda: cluster.coordinate({1}), 60, "broker 1 has all coordinators")
            words.await_progress()
            cluster.two.start()
            engine.until(cluster.in_sync, 60, "broker 2 has all records")
            cluster.elect()
            engine.until(lambda: cluster.coordinate({1, 2}), 60, "broker 2 has coordinators again")
            words.await_progress()
        words.await_done()
        words.check()
