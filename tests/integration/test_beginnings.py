"""Where a task begins on real brokers: where its group has committed, and with exactly once nowhere else."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kstorm.errors import LostOffsetError
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology
from tests.integration import topologies
from tests.integration.engine import make_topics, running
from tests.integration.test_consumer import Owner


class Beginning(Owner):
    """Keeps where its tasks begin."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[int, int] = {}

    async def assigned(self, committed: Mapping[int, int]) -> None:
        self.committed |= committed
        self.ready.set()


async def begins(
    kafka: EmbeddedKafka, topic: str, *, from_committed: bool
) -> dict[int, int] | Exception:
    """Where the only process of a component begins, or why it does not."""
    owner = Beginning()
    consumer = TaskConsumer(
        Settings(
            topology="a:b",
            bootstrap_servers=kafka.bootstrap,
            instance="count-0",
            leave_on_stop=True,
        ),
        topic=topic,
        group=topic,
        session_timeout_ms=6000,
        revoke_secs=10,
        owner=owner,
        loop=asyncio.get_running_loop(),
        fatal=owner.fail,
        log=structlog.get_logger(),
        from_committed=from_committed,
    )
    consumer.start()
    owner.fault.add_done_callback(lambda fault: owner.ready.set())
    try:
        async with asyncio.timeout(60):
            await owner.ready.wait()
        return owner.fault.result() if owner.fault.done() else owner.committed
    finally:
        await asyncio.to_thread(consumer.stop)


def produce(kafka: EmbeddedKafka, topic: str, *partitions: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for partition in partitions:
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0


def commit(kafka: EmbeddedKafka, group: str, offsets: Mapping[int, int]) -> None:
    """For a group named like its topic, as soon as the broker knows who coordinates it."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    places = [TopicPartition(group, *place) for place in offsets.items()]
    deadline = time.monotonic() + 30
    while True:
        (done,) = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)]
        ).values()
        errors = [place.error for place in done.result().topic_partitions if place.error]
        if not errors:
            return
        assert time.monotonic() < deadline, errors
        time.sleep(0.1)


def committed(kafka: EmbeddedKafka, group: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        places = [TopicPartition(group, partition) for partition in range(partitions)]
        return [place.offset for place in consumer.committed(places, timeout=30)]
    finally:
        consumer.close()


@pytest.mark.parametrize("from_committed", [False, True], ids=["at least once", "exactly once"])
async def test_offset_beyond_the_end_of_the_log_starts_no_task(
    kafka: EmbeddedKafka, topic_prefix: str, from_committed: bool
) -> None:
    """librdkafka would begin at 0 and say nothing, and the group would stay where it never was."""
    make_topics(kafka.bootstrap, {topic_prefix: 2})
    produce(kafka, topic_prefix, 0, 0, 1)
    commit(kafka, topic_prefix, {0: 2, 1: 5})
    error = await begins(kafka, topic_prefix, from_committed=from_committed)
    assert isinstance(error, LostOffsetError)
    assert f"continues at offset 5 of {topic_prefix}[1], but the partition ends at 1" in str(error)
    assert f"--topic {topic_prefix}:1 --reset-offsets" in str(error)
    commit(kafka, topic_prefix, {1: 1})
    assert await begins(kafka, topic_prefix, from_committed=from_committed) == {0: 2, 1: 1}


async def test_missing_offset_is_an_error_only_with_exactly_once(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """At least once it all is executed again; exactly once it is not known what was."""
    make_topics(kafka.bootstrap, {topic_prefix: 2})
    produce(kafka, topic_prefix, 0, 1)
    commit(kafka, topic_prefix, {0: 1})
    error = await begins(kafka, topic_prefix, from_committed=True)
    assert isinstance(error, LostOffsetError)
    assert f"{topic_prefix!r} has no offset of {topic_prefix}[1]" in str(error)
    assert await begins(kafka, topic_prefix, from_committed=False) == {0: 1, 1: 0}


@pytest.fixture
def topology(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """Build one that is processed exactly once."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    monkeypatch.setenv("KSTORM_TEST_GUARANTEE", "exactly_once")
    return topologies.wordcount()


def test_empty_new_partitions_get_an_offset(kafka: EmbeddedKafka, topology: Topology) -> None:
    """Also if whoever made the topics died at once. Later only what holds nothing gets one, and nobody's is moved."""
    settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    count = topology.component("count").num_tasks
    topic = topology.bolt_topic("count")
    make_topics(kafka.bootstrap, {topic: count})
    ensure_topics(topology, settings)
    assert committed(kafka, topic, count) == [0] * count
    assert committed(kafka, topology.bolt_topic("sink"), 1) == [0]
    commit(kafka, topic, {0: 1})
    ensure_topics(topology, settings)
    assert committed(kafka, topic, count) == [1, *[0] * (count - 1)]


def test_partitions_with_records_get_no_offset(kafka: EmbeddedKafka, topology: Topology) -> None:
    """It had one, which was lost; of a log whose records are all gone the end is right."""
    topic = topology.bolt_topic("count")
    count = topology.component("count").num_tasks
    make_topics(kafka.bootstrap, {topic: count})
    produce(kafka, topic, 0, 1, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 1, 2)]).values()
    deleted.result()
    ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))
    assert committed(kafka, topic, count) == [-1001, 2, *[0] * (count - 2)]


def test_at_least_once_commits_no_initial_offsets(
    kafka: EmbeddedKafka, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    topology = topologies.wordcount()
    ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))
    assert committed(kafka, topology.bolt_topic("sink"), 1) == [-1001]


def test_service_with_expired_offsets_exits_with_an_explanation(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a week in which the topology was stopped: it does not count everything again."""
    settings = {"KSTORM_TEST_GUARANTEE": "exactly_once", "KSTORM_LEAVE_ON_STOP": "true"}
    with running(
        "wordcount", topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, settings=settings
    ) as engine:
        engine.produce(["one two"] * 6)
        engine.await_done("sentences")
        bolt = engine.worker("sink-0")
        bolt.process.stop()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        group = f"{topic_prefix}.sink"
        engine.until(lambda: not engine.members("sink"), 60, "the group has no members")
        admin.delete_consumer_groups([group])[group].result()
        bolt.process.start()
        engine.until(
            lambda: "has no offset of" in bolt.process.log_tail(), 60, "it says what is missing"
        )
        assert "--reset-offsets" in bolt.process.log_tail()
        assert len(engine.records()) == 12
