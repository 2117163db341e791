"""The audit of a real spout, with its ranges and its offset in ZooKeeper."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.kafka.offset_committer import OffsetCommitter
from kstorm_pipeline.audit.audit import AuditOutcome, audit
from kstorm_pipeline.audit.window import Times
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Iterator[Topic]:
    """Ten messages, and the topic of the dead letters."""
    letters = "words.__dead_letters"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # the request ends with its client
    admin.create_topics([NewTopic(letters, 1, 1)])[letters].exception(
        30
    )  # another test has made it, perhaps
    topic = Topic(f"audited-{uuid.uuid4().hex[:8]}", kafka).create()
    topic.produce(*(b"%d" % number for number in range(10)))
    yield topic
    topic.close()


@contextmanager
def one_too_far() -> Iterator[None]:
    """A spout that stores an offset too far."""
    save = OffsetCommitter.save
    with patch.object(
        OffsetCommitter,
        "save",
        lambda self, partition, offset, *_: save(self, partition, offset + 1),
    ):
        yield


def read(
    topic: Topic, zookeeper: EmbeddedZooKeeper, until: int, stored: int, first: int = 0
) -> None:
    """Run a spout that finishes the messages up to one."""
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(until - first)
    process.ack(*range(first, until))
    process.until_stored(stored)
    process.stop()


@pytest.mark.slow
def test_offset_stored_too_far_is_caught(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
) -> None:
    """Immediately and permanently: the next run of the spout passes over a message, which is
    reported."""
    own = replace(
        settings,
        topology="words",
        zookeeper=zookeeper.connect,
        bootstrap_servers=topic.kafka.bootstrap,
        tables=str(tmp_path),
    )

    def audited() -> tuple[list[tuple[str, int, int]], dict[str, Any]]:
        outcome = audit(spark, own, Tables(own.tables), Times(None, None), 0)
        (tally,) = [each for each in outcome.tallies if each.reading.topic == topic.name]
        return named(outcome), tally.outcomes

    def named(outcome: AuditOutcome) -> list[tuple[str, int, int]]:
        return [
            (each.what, each.first, each.end)
            for each in outcome.faults
            if each.reading.topic == topic.name
        ]

    read(topic, zookeeper, 3, 3)
    assert audited() == ([], {"done": 3, "not due": 7})
    with one_too_far():
        read(topic, zookeeper, 6, 7, first=3)
    assert audited() == ([("gap", 6, 7)], {"done": 6, "gap": 1, "not due": 3})
    read(topic, zookeeper, 10, 10, first=7)
    assert audited() == ([("gap", 6, 7)], {"done": 9, "gap": 1})
