"""A topic on a real broker, for the tests of Kafka spouts and bolts."""

import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.source import KafkaSource


@dataclass
class Topic:
    """A topic on a real broker, and the sources that read it."""

    name: str
    kafka: EmbeddedKafka
    sources: list[KafkaSource] = field(default_factory=list)

    @property
    def client_config(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.kafka.bootstrap}

    def create(self, partitions: int = 1, **settings: str) -> "Topic":
        admin = AdminClient(self.client_config)
        config = {name.replace("_", "."): value for name, value in settings.items()}
        admin.create_topics([NewTopic(self.name, partitions, 1, config=config)])[self.name].result(
            30
        )
        # The controller answers before the broker's metadata has the topic.
        deadline = time.monotonic() + 30
        while len(_led(admin.list_topics(self.name, 30).topics[self.name])) < partitions:
            assert time.monotonic() < deadline, f"{self.name} did not appear within 30 s"
            time.sleep(0.02)
        return self

    def produce(self, *values: bytes, partition: int = 0, **options: Any) -> None:
        producer = Producer(self.client_config)
        for value in values:
            producer.produce(self.name, value, partition=partition, **options)
        assert producer.flush(30) == 0

    def config(self, **settings: Any) -> SpoutConfig:
        hosts, pattern = settings.pop("hosts", KafkaHosts()), settings.pop("pattern", None)
        settings["kafka_topic_wildcard_match"] = pattern is not None
        return SpoutConfig(
            hosts, pattern or self.name, f"/{self.name}", f"reader-of-{self.name}", **settings
        )

    def source(self, **settings: Any) -> KafkaSource:
        self.sources.append(KafkaSource(self.config(**settings), self.client_config))
        return self.sources[-1]

    def at(self, partition: int = 0) -> Partition:
        return Partition(self.name, partition)

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _led(topic: Any) -> list[int]:
    """Return the partitions that have a leader."""
    return [number for number, each in topic.partitions.items() if each.leader >= 0]


def read(source: KafkaSource, count: int, timeout: float = 20.0) -> list[tuple[int, bytes | None]]:
    """Return offset and value of the next messages."""
    got: list[tuple[int, bytes | None]] = []
    deadline = time.monotonic() + timeout
    while len(got) < count and time.monotonic() < deadline:
        got += [(message.offset(), message.value()) for message in source.read(count - len(got))]
        time.sleep(0.005)
    return got
