"""A Kafka with three brokers, three replicas, and two in-sync replicas required, during maintenance
and failures.

Broker 1 is also the controller. No process may end, and processing stays exactly once.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.conftest import Eventually
from tests.integration import topologies
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, running
from tests.integration.further_brokers import SAFE, FurtherBroker
from tests.integration.test_exactly_once import EXACTLY_ONCE
from tests.integration.test_outage import lives
from tests.integration.topic_settings import set_topic
from tests.integration.words import Words

ALL = {1, 2, 3}


class Cluster:
    """Three brokers and their admin client."""

    def __init__(self, brokers: dict[int, EmbeddedKafka]) -> None:
        self.brokers = brokers
        self.bootstrap = ",".join(broker.bootstrap for broker in brokers.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def complete(self) -> bool:
        """True if all brokers are members."""
        return set(self.admin.list_topics(timeout=10).brokers) == ALL

    def partitions(self, *topics: str) -> list[Any]:
        """Return the partitions of these topics, or of all."""
        there = self.admin.list_topics(timeout=10).topics
        return [each for name in topics or there for each in there[name].partitions.values()]

    def in_sync(self, replicas: set[int], *topics: str) -> bool:
        """True if exactly these brokers have every record of these topics, or of all."""
        return all(set(each.isrs) == replicas for each in self.partitions(*topics))

    def create(self, topics: dict[str, int]) -> None:
        """Create topics with a replica on each broker."""
        for future in self.admin.create_topics(
            [NewTopic(name, count, 3) for name, count in topics.items()]
        ).values():
            future.result(30)

    def accept_one(self, topic: str) -> None:
        """Let a topic accept records with a single in-sync replica."""
        set_topic(self.admin, topic, "min.insync.replicas", 1)

    async def move(self, replicas: list[int], *topics: str) -> None:
        """Move partitions of these topics, or of all, to these brokers."""
        there = self.admin.list_topics(timeout=10).topics
        moves: Any = [
            (name, [(number, replicas, {}) for number in there[name].partitions], {})
            for name in topics or there
        ]
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            answer = await admin._send_to_controller(
                AlterPartitionReassignmentsRequest(30_000, moves, {})
            )
            assert answer.error_code == 0, answer
        finally:
            await admin.close()


@pytest.fixture
def cluster(tmp_path: Path, eventually: Eventually) -> Iterator[Cluster]:
    """Three running brokers."""
    with ExitStack() as stack:
        one = stack.enter_context(
            EmbeddedKafka(tmp_path, quick_start=True, heap="256m", settings=SAFE)
        )
        others = {
            number: stack.enter_context(FurtherBroker(tmp_path, one, number, SAFE))
            for number in (2, 3)
        }
        cluster = Cluster({1: one, **others})
        eventually(cluster.complete, 60)
        yield cluster


@pytest.fixture
def words(
    cluster: Cluster,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Words]:
    """A word count on the cluster.

    At the end its processes are the same, and each word was counted once.
    """
    _name, source, sink = topologies.names(topic_prefix)
    cluster.create({source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
    places = (cluster.brokers[1], zookeeper, tmp_path, monkeypatch)
    settings = {**EXACTLY_ONCE, "KSTORM_REPLICATION_FACTOR": "3"}
    with running(
        "wordcount",
        topic_prefix,
        *places,
        bootstrap=cluster.bootstrap,
        settings=settings,
        anew=False,
    ) as engine:
        before = lives(engine)
        words = Words(engine)
        words.engine.bootstrap = cluster.bootstrap
        yield words
        words.await_done()
        words.check()
        assert lives(engine) == before


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_rolling_restart_and_loss_of_a_broker(cluster: Cluster, words: Words) -> None:
    """An upgrade of Kafka restarts them like this.

    The replicas of the lost broker move during the work.
    """
    until = words.engine.until
    with words.fed():
        words.await_progress()
        for number, broker in cluster.brokers.items():
            broker.stop()
            broker.start()
            until(lambda: cluster.in_sync(ALL), 120, f"broker {number} has all records again")
            words.await_progress()
        cluster.brokers[3].kill()
        until(lambda: cluster.in_sync({1, 2}), 60, "two brokers are in sync")
        words.await_progress()
        await cluster.move([1, 2])
        until(
            lambda: all(set(each.replicas) == {1, 2} for each in cluster.partitions()),
            60,
            "nothing is broker 3's any more",
        )
        words.await_progress()


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_lagging_replica_is_not_elected(cluster: Cluster, words: Words) -> None:
    """Kafka elects it only with unclean election. The topology waits for the complete replica."""
    until, source = words.engine.until, words.engine.source
    cluster.accept_one(source)
    with words.fed():
        words.await_progress()
        await cluster.move([2, 3], source)
        until(lambda: cluster.in_sync({2, 3}, source), 60, "the source is kept by brokers 2 and 3")
        words.await_progress()
        cluster.brokers[2].kill()
        until(lambda: cluster.in_sync({3}, source), 60, "broker 2 is behind")
        words.await_progress()
    cluster.brokers[3].kill()
    until(
        lambda: all(each.leader == -1 for each in cluster.partitions(source)),
        60,
        "nobody leads the source",
    )
    cluster.brokers[2].start()
    until(
        lambda: set(cluster.admin.list_topics(timeout=10).brokers) == {1, 2}, 60, "broker 2 is back"
    )
    assert all(each.leader == -1 for each in cluster.partitions(source))
    cluster.brokers[3].start()
    until(lambda: cluster.in_sync({2, 3}, source), 120, "both have all records")
    with words.fed():
        words.await_progress()
