"""The reader of a source topic on a real broker, without the rest of the engine."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import ConfigError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME
from kstorm.kafka.ports import Partition, SourceFault
from kstorm.runtime.kafka.source import KafkaSource
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic, read


def answer(ask: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Call `ask` until it has an answer."""
    deadline = time.monotonic() + timeout
    while (found := ask()) is None:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.005)
    return found


def fault(source: KafkaSource, timeout: float = 20.0) -> SourceFault:
    def ask() -> SourceFault | None:
        source.read(1)
        return next(iter(source.faults()), None)

    found: SourceFault = answer(ask, timeout)
    return found


def test_partitions_and_their_leaders_are_found(topic: Topic) -> None:
    """They are sorted, with the address of the leader."""
    topic.create(3)
    source = topic.source()
    assert source.partitions(topic.name) is None

    # The broker may know a new topic before it knows the partitions.
    def partitions() -> Mapping[Partition, Any] | None:
        source.refresh(topic.name)
        return source.partitions(topic.name) or None

    found = answer(partitions)
    assert list(found) == [topic.at(0), topic.at(1), topic.at(2)]
    assert {f"{leader.host}:{leader.port}" for leader in found.values()} == {topic.kafka.bootstrap}


@pytest.mark.slow
def test_missing_topic_is_reported_and_not_created(topic: Topic) -> None:
    """A created topic might have a wrong number of partitions."""
    source = topic.source()
    source.refresh(topic.name)

    def told() -> SourceFault | None:
        assert not source.partitions(topic.name)
        return next(iter(source.faults()), None)

    assert (
        f"topic {topic.name!r} cannot be read from {topic.kafka.bootstrap}" in answer(told).reason
    )
    assert source.partitions(topic.name) == {}
    assert topic.name not in AdminClient(topic.client_config).list_topics(timeout=10).topics


@pytest.mark.slow
def test_matching_topics_are_found(topic: Topic, eventually: Eventually) -> None:
    """They are sorted by name.

    No match is not an error. The next look-up notices new and deleted topics.
    """
    pattern = f"{topic.name}-[ab]"
    source = topic.source(pattern=pattern)
    names = [f"{topic.name}-{letter}" for letter in "abc"]

    def found() -> list[Partition]:
        before = source.partitions(pattern)
        source.refresh(pattern)
        eventually(lambda: source.partitions(pattern) is not before, 20)
        return list(source.partitions(pattern) or ())

    assert found() == []
    for name in reversed(names):
        Topic(name, topic.kafka).create(2)
    expected = [Partition(name, number) for name in names[:2] for number in range(2)]
    eventually(lambda: found() == expected, 20)
    admin = AdminClient(topic.client_config)
    admin.delete_topics([names[0]])[names[0]].result(30)
    eventually(lambda: found() == expected[2:], 20)
    assert source.faults() == []


def test_reading_starts_at_the_assigned_offset(topic: Topic) -> None:
    """The source has no group and no rebalance."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    source.assign(topic.at(), 1)
    assert read(source, 2) == [(1, b"b"), (2, b"c")]


@pytest.mark.slow
def test_second_assignment_restarts_at_its_offset(topic: Topic) -> None:
    """Messages that were fetched for the old position are dropped.

    The other partition is not affected.
    """
    topic.create(2)
    topic.produce(*(b"%d" % number for number in range(100)))
    topic.produce(*(b"%d" % number for number in range(100)), partition=1)
    source = topic.source()
    source.assign(topic.at(0), 0)
    source.assign(topic.at(1), 0)
    before = [(m.partition(), m.offset()) for m in answer(lambda: source.read(50) or None)]
    source.assign(topic.at(0), 90)
    seen = list(before)
    while len(seen) < 100 + 10 + sum(partition == 0 for partition, _ in before):
        seen += [(m.partition(), m.offset()) for m in answer(lambda: source.read(50) or None)]
    assert [offset for partition, offset in seen if partition == 1] == list(range(100))
    zero = [offset for partition, offset in seen[len(before) :] if partition == 0]
    assert zero == list(range(90, 100))


@pytest.mark.slow
def test_unassigned_partition_is_not_read(topic: Topic) -> None:
    """The messages of the other partitions arrive."""
    topic.create(2)
    source = topic.source()
    source.assign(topic.at(0), 0)
    source.assign(topic.at(1), 0)
    topic.produce(b"a")
    assert read(source, 1) == [(0, b"a")]
    source.unassign(topic.at(0))
    topic.produce(b"b")
    topic.produce(b"c", partition=1)
    assert read(source, 1) == [(0, b"c")]
    assert read(source, 1, timeout=0.5) == []


@pytest.mark.slow
def test_paused_partition_keeps_its_position(topic: Topic) -> None:
    """It returns no messages while it is paused, and none is missing afterwards."""
    topic.create(2)
    source = topic.source()
    source.assign(topic.at(0), 0)
    source.assign(topic.at(1), 0)
    topic.produce(*(b"%d" % number for number in range(10)))
    assert [offset for offset, _ in read(source, 4)] == [0, 1, 2, 3]
    source.pause(topic.at(0))
    topic.produce(b"other", partition=1)
    assert read(source, 1) == [(0, b"other")]
    source.resume(topic.at(0))
    assert [offset for offset, _ in read(source, 6)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.slow
def test_new_partition_starts_while_others_are_idle(topic: Topic) -> None:
    """The broker delays its answer for the idle one. The new one must not wait long for it."""
    topic.create(2)
    topic.produce(b"here", partition=1)
    source = topic.source()
    source.assign(topic.at(0), 0)
    assert read(source, 1, timeout=1) == []
    begun = time.monotonic()
    source.assign(topic.at(1), 0)
    assert read(source, 1) == [(0, b"here")]
    assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_offset_for_a_time(topic: Topic) -> None:
    """These are the oldest, the newest, and the first at or after a time.

    After the last message it is the end.
    """
    topic.create(retention_ms="-1")  # otherwise the broker may delete old records at any moment
    for stamp in (1000, 2000, 3000):
        topic.produce(b"x", timestamp=stamp)
    source = topic.source()
    found = {
        at: answer(partial(source.offset_for, topic.at(), at))
        for at in (EARLIEST_TIME, LATEST_TIME, 0, 1500, 3000, 9000)
    }
    assert found == {EARLIEST_TIME: 0, LATEST_TIME: 3, 0: 0, 1500: 1, 3000: 2, 9000: 3}


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [4, 10_000])
def test_offset_out_of_range_is_reported(topic: Topic, beyond: int) -> None:
    """librdkafka never replaces it. The spout chooses another offset and continues."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    source.assign(topic.at(), beyond)
    told = fault(source)
    assert (told.partition, told.out_of_range) == (topic.at(), True)
    source.assign(topic.at(), 1)
    assert read(source, 2) == [(1, b"b"), (2, b"c")]


def test_expired_offset_is_reported(topic: Topic) -> None:
    """Retention has deleted the record of the stored offset."""
    topic.create().produce(b"a", b"b", b"c")
    admin = AdminClient(topic.client_config)
    admin.delete_records([TopicPartition(topic.name, 0, 2)])[TopicPartition(topic.name, 0)].result(
        30
    )
    source = topic.source()
    source.assign(topic.at(), 0)
    assert fault(source).out_of_range
    assert answer(lambda: source.offset_for(topic.at(), EARLIEST_TIME)) == 2


def test_end_offset_comes_with_a_fetch(topic: Topic) -> None:
    """The reader sends no extra request."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    assert source.end_offset(topic.at()) is None
    source.assign(topic.at(), 0)
    read(source, 3)
    assert source.end_offset(topic.at()) == 3


@pytest.mark.slow
def test_group_shows_the_committed_offset(topic: Topic, eventually: Eventually) -> None:
    """Lag tools read it."""
    topic.create()
    source = topic.source()
    source.assign(topic.at(), 0)
    source.commit(topic.at(), 17)
    onlooker = Consumer({**topic.client_config, "group.id": topic.config().id})
    eventually(
        lambda: onlooker.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset == 17, 20
    )
    onlooker.close()


@pytest.mark.slow
def test_unknown_property_is_named(topic: Topic) -> None:
    """The error has the spout and the topic."""
    with pytest.raises(
        ConfigError, match=r"cannot read .*'no\.such\.thing'|No such configuration property"
    ):
        topic.source(kafka_properties={"no.such.thing": "1"})


@pytest.mark.slow
def test_reading_continues_after_an_outage(tmp_path: Path) -> None:
    """The outage is reported, and closing during it does not hang.

    Afterwards no message is missing or doubled.
    """
    with EmbeddedKafka(tmp_path, heap="256m", quick_start=True) as kafka:
        topic = Topic("outage", kafka).create()
        topic.produce(b"before")
        source = topic.source()
        source.assign(topic.at(), 0)
        assert read(source, 1) == [(0, b"before")]
        kafka.stop()
        assert kafka.bootstrap in fault(source).reason
        other = KafkaSource(topic.config(), topic.client_config)
        other.refresh(topic.name)
        begun = time.monotonic()
        other.close()
        assert time.monotonic() - begun < 20
        kafka.start()
        topic.produce(b"after")
        found = read(source, 1, timeout=60)
        assert found == [(1, b"after")], source.faults()
        topic.close()


def test_open_transaction_is_reported_until_it_ends(topic: Topic) -> None:
    """The producer is not kstorm's. Messages after its transaction are not read."""
    topic.create()
    stuck = Producer({**topic.client_config, "transactional.id": topic.name})
    stuck.init_transactions(30)
    stuck.begin_transaction()
    stuck.produce(topic.name, b"x", partition=0)
    assert stuck.flush(30) == 0
    source = topic.source()
    assert list(source.open_transactions) == []
    source.refresh(topic.name)
    answer(lambda: source.partitions(topic.name) or None)
    source.assign(topic.at(0), 0)

    def said() -> str:
        source.read(1)
        return "".join(each.problem() for each in source.open_transactions)

    assert f"topic {topic.name} partition 0: a transaction has been open" in answer(
        lambda: said() or None, 60
    )
    stuck.abort_transaction(30)
    answer(lambda: None if said() else True, 60)
