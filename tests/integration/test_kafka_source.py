"""Both Kafka ends against a real broker and a real ZooKeeper, without the rest of the engine."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kazoo.client import KazooClient

from kstorm.errors import ConfigError
from kstorm.kafka import (
    EARLIEST_TIME,
    KAFKA,
    LATEST_TIME,
    KafkaHosts,
    KafkaPorts,
    KafkaSpout,
    SchemeAsMultiScheme,
    StringScheme,
)
from kstorm.kafka.ports import SourceFault
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka_sink import KafkaWriter
from kstorm.runtime.kafka_source import KafkaSource
from kstorm.runtime.zookeeper import ZooKeeperOffsetStores
from kstorm.topology import (
    BasicBolt,
    Config,
    Placed,
    TopologyBuilder,
    TopologyContext,
)
from tests.integration.kafka_topic import Topic, read

Eventually = Callable[[Callable[[], object], float], None]


def answer(ask: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Asks until there is an answer."""
    deadline = time.monotonic() + timeout
    while (found := ask()) is None:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.005)
    return found


def fault(source: KafkaSource, timeout: float = 20.0) -> SourceFault:
    """The next thing that goes wrong."""

    def ask() -> SourceFault | None:
        source.read(1)
        return next(iter(source.faults()), None)

    found: SourceFault = answer(ask, timeout)
    return found


def test_it_finds_the_partitions_and_their_leaders(topic: Topic) -> None:
    """In order, with the address of each one's leader."""
    topic.create(3)
    source = topic.source()
    assert source.partitions(topic.name) is None
    source.refresh(topic.name)
    found = answer(lambda: source.partitions(topic.name))
    assert list(found) == [topic.at(0), topic.at(1), topic.at(2)]
    assert {f"{leader.host}:{leader.port}" for leader in found.values()} == {topic.kafka.bootstrap}


def test_a_missing_topic_is_named_and_not_created(topic: Topic) -> None:
    """Reading must not bring a topic with a wrong number of partitions into being."""
    source = topic.source()
    source.refresh(topic.name)

    def told() -> SourceFault | None:
        assert source.partitions(topic.name) is None
        return next(iter(source.faults()), None)

    assert f"topic {topic.name!r} cannot be read from {topic.kafka.bootstrap}" in answer(told).reason
    assert topic.name not in AdminClient(topic.client_config).list_topics(timeout=10).topics


def test_it_reads_from_the_offset_it_is_told(topic: Topic) -> None:
    """Without a group, without a rebalance."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    source.assign(topic.at(), 1)
    assert read(source, 2) == [(1, b"b"), (2, b"c")]


def test_a_partition_that_is_assigned_again_starts_anew(topic: Topic) -> None:
    """Nothing that was fetched for the old position comes out after it; the other partition is not disturbed."""
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


def test_a_partition_is_read_no_more(topic: Topic) -> None:
    """After `unassign` its messages do not come, and those of the others do."""
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


def test_a_paused_partition_keeps_its_place(topic: Topic) -> None:
    """Nothing comes while it is paused, and nothing is missing after."""
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


def test_a_partition_starts_while_others_are_idle(topic: Topic) -> None:
    """The broker holds back its answer for the idle one; the new one must not wait long for that."""
    topic.create(2)
    topic.produce(b"here", partition=1)
    source = topic.source()
    source.assign(topic.at(0), 0)
    assert read(source, 1, timeout=1) == []
    begun = time.monotonic()
    source.assign(topic.at(1), 0)
    assert read(source, 1) == [(0, b"here")]
    assert time.monotonic() - begun < 5


def test_offsets_by_time(topic: Topic) -> None:
    """The oldest, the newest, the first at or after a time; past the last message it is the end."""
    topic.create()
    for stamp in (1000, 2000, 3000):
        topic.produce(b"x", timestamp=stamp)
    source = topic.source()
    found = {
        at: answer(partial(source.offset_for, topic.at(), at))
        for at in (EARLIEST_TIME, LATEST_TIME, 0, 1500, 3000, 9000)
    }
    assert found == {EARLIEST_TIME: 0, LATEST_TIME: 3, 0: 0, 1500: 1, 3000: 2, 9000: 3}


@pytest.mark.parametrize("beyond", [4, 10_000])
def test_an_offset_that_the_broker_does_not_have_is_told(topic: Topic, beyond: int) -> None:
    """It is never silently replaced by another; the spout decides, and can then read on from elsewhere."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    source.assign(topic.at(), beyond)
    told = fault(source)
    assert (told.partition, told.out_of_range) == (topic.at(), True)
    source.assign(topic.at(), 1)
    assert read(source, 2) == [(1, b"b"), (2, b"c")]


def test_an_offset_that_has_expired_is_told(topic: Topic) -> None:
    """As after retention has deleted what the stored offset points at."""
    topic.create().produce(b"a", b"b", b"c")
    admin = AdminClient(topic.client_config)
    admin.delete_records([TopicPartition(topic.name, 0, 2)])[TopicPartition(topic.name, 0)].result(30)
    source = topic.source()
    source.assign(topic.at(), 0)
    assert fault(source).out_of_range
    assert answer(lambda: source.offset_for(topic.at(), EARLIEST_TIME)) == 2


def test_the_end_of_the_log_is_known(topic: Topic) -> None:
    """With a fetch, without asking."""
    topic.create().produce(b"a", b"b", b"c")
    source = topic.source()
    assert source.end_offset(topic.at()) is None
    source.assign(topic.at(), 0)
    read(source, 3)
    assert source.end_offset(topic.at()) == 3


def test_the_group_shows_the_offset(topic: Topic, eventually: Eventually) -> None:
    """Lag tools see what the spout has committed."""
    topic.create()
    source = topic.source()
    source.assign(topic.at(), 0)
    source.commit(topic.at(), 17)
    onlooker = Consumer({**topic.client_config, "group.id": topic.config().id})
    eventually(lambda: onlooker.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset == 17, 20)
    onlooker.close()


def test_a_property_that_librdkafka_refuses_is_named(topic: Topic) -> None:
    """With the spout and the topic it is for."""
    with pytest.raises(ConfigError, match=r"cannot read .*'no\.such\.thing'|No such configuration property"):
        topic.source(kafka_properties={"no.such.thing": "1"})


def test_a_broker_that_comes_back_is_read_on(tmp_path: Path) -> None:
    """An outage is told, closing during one does not hang, and after it nothing is missing or doubled."""
    with EmbeddedKafka(tmp_path, heap="256m") as kafka:
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
        assert read(source, 1, timeout=60) == [(1, b"after")]
        topic.close()


# The whole spout and the whole bolt, on real servers.


@dataclass
class Collector:
    """A spout's collector that keeps what it gets."""

    capacity: int = 1_000_000
    emitted: dict[int, Any] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)

    def emit(
        self, values: Sequence[Any], message_id: Any = None, stream: str = "default", task: int | None = None
    ) -> Sequence[int]:
        self.emitted[message_id.offset] = message_id
        self.values.append(values[0])
        return (1,)

    def emit_batch(
        self, columns: Sequence[list[Any]], message_ids: Sequence[Any] | None = None, stream: str = "default"
    ) -> Placed:
        for values, message_id in zip(zip(*columns, strict=True), message_ids or (), strict=True):
            self.emit(values, message_id, stream)
        return []

    def dead_letter(self, reason: str, **letter: Any) -> None:
        self.letters.append(letter["offset"])
        letter["on_stored"]()

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)


class SpoutProcess:
    """A spout task as a process of its own would have it: own clients, own session."""

    def __init__(self, topic: Topic, zookeeper: EmbeddedZooKeeper, **settings: Any) -> None:
        settings = {"state_update_interval_ms": 50, "scheme": SchemeAsMultiScheme(StringScheme()), **settings}
        self.spout = KafkaSpout(topic.config(**settings))
        self.collector = Collector()
        self.stores = ZooKeeperOffsetStores(zookeeper.connect, 2.0)
        ports = KafkaPorts(
            partial(KafkaSource, client_config=topic.client_config),
            self.stores.open,
            partial(KafkaWriter, topic.client_config),
            partial(KafkaWriter, topic.client_config),
            "words-1",
        )
        builder = TopologyBuilder("words")
        builder.set_spout("lines", self.spout)
        builder.set_bolt("sink", BasicBolt()).shuffle_grouping("lines")
        self.spout.open(Config(), TopologyContext(builder.build(), "lines", 0, {KAFKA: ports}), self.collector)

    def until(self, condition: Callable[[], object], timeout: float = 20.0) -> None:
        """Calls `next_tuple` until the condition is true."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout} s; errors: {self.collector.errors}"
            self.spout.next_tuple()
            time.sleep(0.002)

    def stop(self) -> None:
        asyncio.run(self.spout.close())
        self.stores.close()


def stored_offset(zookeeper: EmbeddedZooKeeper, topic: Topic, partition: int = 0) -> Any:
    """What ZooKeeper holds of a partition."""
    client = KazooClient(zookeeper.connect, timeout=10.0)
    client.start(timeout=30)
    try:
        return json.loads(client.get(f"{topic.config().zk_path}/partition_{partition}")[0])
    finally:
        client.stop()
        client.close()


def test_the_next_process_resumes_where_the_last_one_stopped(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """Acked messages are not emitted again, unfinished ones are, and the node is the seed's to the letter."""
    topic.create().produce(*(b"%d" % number for number in range(10)))
    first = SpoutProcess(topic, zookeeper)
    first.until(lambda: len(first.collector.emitted) == 10)
    for offset in (0, 1, 2, 3, 5, 9):
        first.spout.ack(first.collector.emitted[offset])
    first.stop()
    host, port = topic.kafka.bootstrap.split(":")
    assert stored_offset(zookeeper, topic) == {
        "topology": {"id": "words-1", "name": "words"},
        "offset": 4,
        "partition": 0,
        "broker": {"host": host, "port": int(port)},
        "topic": topic.name,
    }
    second = SpoutProcess(topic, zookeeper, start_offset_time=LATEST_TIME)
    second.until(lambda: len(second.collector.emitted) == 6)
    assert sorted(second.collector.emitted) == [4, 5, 6, 7, 8, 9]
    assert second.collector.values == ["4", "5", "6", "7", "8", "9"]
    second.stop()


def test_two_processes_never_read_one_partition(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """The second waits for the lock, takes over when the first is closed, and the lag is 0 in the end."""
    topic.create().produce(*(b"%d" % number for number in range(5)))
    first = SpoutProcess(topic, zookeeper)
    first.until(lambda: len(first.collector.emitted) == 5)
    second = SpoutProcess(topic, zookeeper)
    for id in first.collector.emitted.values():
        first.spout.ack(id)
    topic.produce(b"5")
    first.until(lambda: len(first.collector.emitted) == 6)
    for _ in range(50):
        second.spout.next_tuple()
        time.sleep(0.01)
    assert second.collector.emitted == {}
    first.stop()
    second.until(lambda: 5 in second.collector.emitted)
    assert sorted(second.collector.emitted) == [5]
    second.spout.ack(second.collector.emitted[5])
    assert second.spout.metrics()["lag"] == 0
    second.stop()
    assert stored_offset(zookeeper, topic)["offset"] == 6


def test_gaps_of_transactions_do_not_hold_the_offset(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """Aborted messages are never emitted, and neither they nor the markers stop the offset (STORM-2505)."""
    topic.create()
    producer = Producer({**topic.client_config, "transactional.id": topic.name})
    producer.init_transactions(30)
    for values, end in (
        ((b"a", b"b"), producer.commit_transaction),
        ((b"x", b"y"), producer.abort_transaction),
        ((b"c",), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic.name, value)
        assert producer.flush(30) == 0  # aborted or not, the broker has them
        end(30)
    process = SpoutProcess(topic, zookeeper)
    process.until(lambda: len(process.collector.values) == 3)
    assert process.collector.values == ["a", "b", "c"]
    for id in process.collector.emitted.values():
        process.spout.ack(id)
    process.stop()
    last = max(process.collector.emitted)
    assert last == 6
    assert stored_offset(zookeeper, topic)["offset"] == last + 1


def test_a_message_that_cannot_be_read_moves_on(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """The bad one becomes a dead letter, the good one behind it is emitted."""
    topic.create().produce(b"\xff", b"good")
    process = SpoutProcess(topic, zookeeper)
    process.until(lambda: process.collector.values == ["good"])
    assert process.collector.letters == [0]
    process.spout.ack(process.collector.emitted[1])
    process.stop()
    assert stored_offset(zookeeper, topic)["offset"] == 2


def test_a_topic_made_anew_is_read_from_its_start(
    topic: Topic, zookeeper: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """It has fewer messages than the stored offset says: the spout starts over instead of waiting for ever."""
    topic.create().produce(*(b"%d" % number for number in range(8)))
    process = SpoutProcess(topic, zookeeper)
    process.until(lambda: len(process.collector.emitted) == 8)
    for id in process.collector.emitted.values():
        process.spout.ack(id)
    process.stop()
    assert stored_offset(zookeeper, topic)["offset"] == 8
    admin = AdminClient(topic.client_config)
    admin.delete_topics([topic.name])[topic.name].result(30)
    eventually(lambda: topic.name not in admin.list_topics(timeout=10).topics, 20)
    topic.create().produce(b"new")
    process = SpoutProcess(topic, zookeeper)
    process.until(lambda: process.collector.values == ["new"])
    process.spout.ack(process.collector.emitted[0])
    process.stop()
    assert stored_offset(zookeeper, topic)["offset"] == 1


def test_partitions_that_are_added_are_found(topic: Topic, zookeeper: EmbeddedZooKeeper) -> None:
    """At the next refresh, without emitting anything of the old ones again."""
    topic.create().produce(b"old")
    process = SpoutProcess(topic, zookeeper, hosts=KafkaHosts(refresh_freq_secs=0.5))
    process.until(lambda: process.collector.values == ["old"])
    admin = AdminClient(topic.client_config)
    admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(30)
    topic.produce(b"new", partition=1)
    process.until(lambda: len(process.collector.values) > 1)
    assert process.collector.values == ["old", "new"]
    process.stop()
