"""A `KafkaSpout` with real clients and a simple collector, for tests that need no further engine."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from kstorm.kafka import KAFKA, KafkaPorts, KafkaSpout, SchemeAsMultiScheme, StringScheme
from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.sink import KafkaWriter
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
from kstorm.topology import BasicBolt, Config, TopologyBuilder, TopologyContext
from tests.integration.kafka_topic import Topic
from tests.spout_collector import SpoutCollector

FINISHED = "words.__finished"


@dataclass
class Collector(SpoutCollector):
    """A spout's collector that keeps its calls and stores dead letters at once."""

    emitted: dict[int, Any] = field(default_factory=dict)
    ids: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = "default",
        task: int | None = None,
    ) -> Sequence[int]:
        if message_id is not None:
            self.emitted[message_id.offset] = message_id
            self.ids.append(message_id)
        self.values.append(values[0])
        return (1,)

    def dead_letter(self, reason: str, **letter: Any) -> None:
        self.letters.append(letter["offset"])
        letter["on_stored"]()


class PolledWriter:
    """A `RecordWriter` for the topic of finished ranges, without an event loop.

    Its process polls it.
    """

    def __init__(self, topic: Topic) -> None:
        admin = AdminClient(topic.client_config)  # the request ends with its client
        admin.create_topics([NewTopic(FINISHED, 1, 1)])[FINISHED].exception(
            30
        )  # another process may have created it
        self.producer = Producer({**topic.client_config, "linger.ms": 0})

    def write(
        self, topic: str, key: Any, value: Any, on_delivery: Any, headers: Any = None
    ) -> None:
        """See `RecordWriter`."""
        self.producer.produce(topic, value, key, on_delivery=on_delivery)

    def write_batch(
        self, topic: str, keys: Any, values: Any, on_done: Any, headers: Any = None
    ) -> None:
        """Not supported: spouts do not call it."""
        raise NotImplementedError

    async def close(self) -> None:
        """See `RecordWriter`."""
        self.producer.flush(4)


class SpoutProcess:
    """A spout task with its own clients and session, like in a process of its own.

    `zookeeper` and `kafka` are the servers of the process. The default Kafka is that of the topic.
    """

    def __init__(
        self,
        topic: Topic,
        zookeeper: str,
        deployment: str = "words-1",
        kafka: str = "",
        **settings: Any,
    ) -> None:
        client_config = settings.pop(
            "client_config", {"bootstrap.servers": kafka or topic.kafka.bootstrap}
        )
        settings = {
            "state_update_interval_ms": 50,
            "scheme": SchemeAsMultiScheme(StringScheme()),
            **settings,
        }
        self.spout = KafkaSpout(topic.config(**settings))
        self.collector = Collector()
        self.stores = ZooKeeperOffsetStores(zookeeper, 2.0)
        ports = KafkaPorts(
            partial(KafkaSource, client_config=client_config),
            self.stores.open,
            partial(KafkaWriter, client_config),
            lambda _: self.writer,
            deployment,
        )
        self.writer = PolledWriter(topic)
        builder = TopologyBuilder("words")
        builder.set_spout("lines", self.spout)
        builder.set_bolt("sink", BasicBolt()).shuffle_grouping("lines")
        self.spout.open(
            Config(), TopologyContext(builder.build(), "lines", 0, {KAFKA: ports}), self.collector
        )

    def next_tuple(self) -> None:
        """Call it once, and handle Kafka's answers."""
        self.spout.next_tuple()
        self.writer.producer.poll(0)

    def until(self, condition: Callable[[], object], timeout: float = 20.0) -> None:
        """Call `next_tuple` until the condition is true."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, (
                f"not within {timeout} s; errors: {self.collector.errors}"
            )
            self.next_tuple()
            time.sleep(0.002)

    def emit(self, count: int) -> None:
        """Call `next_tuple` until `count` tuples have been emitted in total."""
        self.until(lambda: len(self.collector.values) >= count)

    def ack(self, *offsets: int) -> None:
        """Ack the newest attempts at these messages."""
        for offset in offsets:
            self.spout.ack(self.collector.emitted[offset])

    def until_stored(self, offset: int, timeout: float = 20.0) -> None:
        """Call `next_tuple` until ZooKeeper has this offset of partition 0."""
        partition = Partition(self.spout.spout_config.topic, 0)
        self.until(lambda: self.spout._offsets.stored_offset(partition) == offset, timeout)

    def stop(self) -> None:
        asyncio.run(self.spout.close())
        self.stores.close()


@contextmanager
def zookeeper_client(zookeeper: str) -> Iterator[KazooClient]:
    """Open a ZooKeeper client that is independent of kstorm."""
    client = KazooClient(zookeeper, timeout=10.0)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def stored_offset(zookeeper: str, topic: Topic, partition: int = 0) -> Any:
    """Return the content of a partition's node in ZooKeeper."""
    with zookeeper_client(zookeeper) as client:
        return json.loads(client.get(f"{topic.config().zk_path}/partition_{partition}")[0])
