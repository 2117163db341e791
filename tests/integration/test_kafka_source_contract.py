"""The reader of source topics fulfils its contract on a real broker."""

from dataclasses import dataclass

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kstorm.kafka.ports import SourceReader
from kstorm.runtime.kafka.shared_source import SharedSources
from tests.integration.kafka_topic import Topic
from tests.integration.undecodable_batch import write_undecodable
from tests.source_contract import SourceContract


@dataclass
class RealLog:
    """A `Log` on a broker."""

    topic: Topic
    reader: SourceReader

    @property
    def name(self) -> str:
        return self.topic.name

    def write(self, partition: int, count: int) -> None:
        self.topic.produce(*[b"x"] * count, partition=partition)

    def write_undecodable(self, partition: int, count: int) -> None:
        write_undecodable(self.topic.kafka.bootstrap, self.name, partition, count)

    def expire(self, partition: int, before: int) -> None:
        where = TopicPartition(self.topic.name, partition, before)
        admin = AdminClient(self.topic.client_config)
        admin.delete_records([where])[TopicPartition(self.topic.name, partition)].result(30)


class TestKafkaSource(SourceContract):
    """See `SourceContract`."""

    @pytest.fixture
    def log(self, topic: Topic) -> RealLog:
        topic.create(2)
        return RealLog(topic, topic.source())


class TestSharedSource(SourceContract):
    """See `SourceContract`. Spout tasks read like this."""

    @pytest.fixture
    def log(self, topic: Topic) -> RealLog:
        topic.create(2)
        shared = SharedSources(lambda config: topic.source())
        return RealLog(topic, shared.lend(topic.config()))
