"""Start offsets of tasks on real brokers: the committed offset, and with exactly once no other."""

import asyncio
import time
from collections.abc import Mapping

import pytest
import structlog
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import LostOffsetError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.topology import Topology
from tests.integration import topologies
from tests.integration.conftest import RunTopology
from tests.integration.engine import make_topics
from tests.integration.test_consumer import Owner


class Beginning(Owner):
    """Keeps the start offsets of its tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[int, int] = {}

    async def assigned(self, committed: Mapping[int, int]) -> None:
        self.committed |= committed
        self.ready.set()


async def begins(
    kafka: EmbeddedKafka, topic: str, *, from_committed: bool
) -> dict[int, int] | Exception:
    """Return the start offsets of a component's only process, or its error."""
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
    """Commit for a group named like its topic, as soon as the group has a coordinator."""
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


@pytest.mark.slow
@pytest.mark.parametrize("from_committed", [False, True], ids=["at least once", "exactly once"])
async def test_committed_offset_beyond_the_end_is_an_error(
    kafka: EmbeddedKafka, topic_prefix: str, from_committed: bool
) -> None:
    """librdkafka would silently start at 0, and the group's offset would stay wrong."""
    make_topics(kafka.bootstrap, {topic_prefix: 2})
    produce(kafka, topic_prefix, 0, 0, 1)
    commit(kafka, topic_prefix, {0: 2, 1: 5})
    error = await begins(kafka, topic_prefix, from_committed=from_committed)
    assert isinstance(error, LostOffsetError)
    assert f"continues at offset 5 of {topic_prefix}[1], but the partition ends at 1" in str(error)
    assert f"--topic {topic_prefix}:1 --reset-offsets" in str(error)
    commit(kafka, topic_prefix, {1: 1})
    assert await begins(kafka, topic_prefix, from_committed=from_committed) == {0: 2, 1: 1}


async def test_missing_offset_is_an_error_with_exactly_once(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """With at least once all records are executed again.

    With exactly once the processed ones are unknown.
    """
    make_topics(kafka.bootstrap, {topic_prefix: 2})
    produce(kafka, topic_prefix, 0, 1)
    commit(kafka, topic_prefix, {0: 1})
    error = await begins(kafka, topic_prefix, from_committed=True)
    assert isinstance(error, LostOffsetError)
    assert f"{topic_prefix!r} has no offset of {topic_prefix}[1]" in str(error)
    assert await begins(kafka, topic_prefix, from_committed=False) == {0: 1, 1: 0}


@pytest.fixture
def topology(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """A topology with exactly once."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    monkeypatch.setenv("KSTORM_TEST_GUARANTEE", "exactly_once")
    return topologies.wordcount()


def test_empty_topic_gets_an_offset_before_its_first_record(
    kafka: EmbeddedKafka, topology: Topology
) -> None:
    """This also happens if the creator of the topics died at once.

    Later only empty partitions get an offset, and none is moved.
    """
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


@pytest.mark.slow
def test_topic_with_records_gets_no_offset(kafka: EmbeddedKafka, topology: Topology) -> None:
    """Its offset was lost. If all records were deleted, the end is correct."""
    topic = topology.bolt_topic("count")
    count = topology.component("count").num_tasks
    make_topics(kafka.bootstrap, {topic: count})
    produce(kafka, topic, 0, 1, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 1, 2)]).values()
    deleted.result()
    ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))
    assert committed(kafka, topic, count) == [-1001, 2, *[0] * (count - 2)]


@pytest.mark.slow
def test_at_least_once_commits_no_initial_offset(
    kafka: EmbeddedKafka, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    topology = topologies.wordcount()
    ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))
    assert committed(kafka, topology.bolt_topic("sink"), 1) == [-1001]


@pytest.mark.slow
def test_expired_offsets_end_an_exactly_once_service(
    run_topology: RunTopology, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """This happens if the topology was stopped for a week.

    The service does not count everything again.
    """
    settings = {"KSTORM_TEST_GUARANTEE": "exactly_once", "KSTORM_LEAVE_ON_STOP": "true"}
    with run_topology("wordcount", settings=settings) as engine:
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
