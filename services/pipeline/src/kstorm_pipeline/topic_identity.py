"""Records which topic the tables were made from, and checks that it is still the same.

A checkpoint identifies a topic by name and offsets. A topic that was deleted and recreated has the
same name, and its offsets start again. Spark would silently continue in the middle of it, or report
missing offsets as lost. Kafka gives every topic a unique id. So the bronze table stores the name
and the id as properties, and each batch checks them first.

A recreated topic is refused. Its records cannot go into the same tables, which identify records by
partition and offset.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

TOPIC = "kstorm.topic"
TOPIC_ID = "kstorm.topic.id"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that a client reports for a topic of a broker older than 2.8."""
_LAST_TIME = 9_223_372_036_854_775
"""The last millisecond since 1970 that Spark's timestamps can represent, in the year 294247."""
_WAIT_MS = "20"
"""Maximum time that a broker waits for records.

A task receives its first records only after the broker has answered the fetch that the consumer
sent at the end of the last batch. With Kafka's default of 500 ms, each task of a batch started with
that wait.
"""

_ANSWER_MS = "15000"
"""Timeout of a request to Kafka. Spark tries three times before a query fails, which takes minutes
with Kafka's defaults."""


@contextmanager
def open_identity(
    spark: SparkSession, settings: Settings, tables: Tables
) -> Iterator[TopicIdentity]:
    """Connect to Kafka within the block. Raises PipelineError if the topic does not exist."""
    properties: Any = spark._jvm.java.util.Properties()  # type: ignore[union-attr]
    for name, value in client_options(settings).items():
        properties.setProperty(name, value)
    try:
        admin = spark._jvm.org.apache.kafka.clients.admin.Admin.create(properties)  # type: ignore[union-attr]
    except Py4JJavaError as error:
        raise PipelineError(
            f"Kafka's client refuses its settings: {_cause(error)}; correct --kafka-option"
        ) from error
    try:
        yield TopicIdentity(spark, settings, tables, admin)
    finally:
        admin.close()


def client_options(settings: Settings) -> dict[str, str]:
    """Return the settings of Kafka's client, by their Kafka names."""
    given = {name.removeprefix("kafka."): value for name, value in settings.kafka_options.items()}
    own = {
        "bootstrap.servers": settings.bootstrap_servers,
        "isolation.level": "read_committed",
        "fetch.max.wait.ms": _WAIT_MS,
        "request.timeout.ms": _ANSWER_MS,
        "default.api.timeout.ms": _ANSWER_MS,
    }
    return {**own, **given}


class TopicIdentity:
    """The topic in Kafka, and the check that the tables were made from it."""

    def __init__(self, spark: SparkSession, settings: Settings, tables: Tables, admin: Any) -> None:
        self._spark, self._settings, self._tables, self._admin = spark, settings, tables, admin
        self._first = self._id()

    def settle(self, *, begun: bool) -> None:
        """Store the topic's identity in the bronze table, which exists.

        Raises PipelineError if tables that have `begun` were made from another topic.
        """
        noted = self._tables.properties(self._spark, "bronze")
        known = noted if begun else {}
        name = known.get(TOPIC, self._settings.topic)
        if name != self._settings.topic:
            raise PipelineError(another_topic(self._settings, name))
        if self._first == _NO_ID:
            logger.warning(
                "the brokers give topics no ids, so the pipeline will not notice if the topic %r is "
                "deleted and recreated; Kafka 2.8 and later give ids",
                self._settings.topic,
            )
            return
        if known.get(TOPIC_ID, self._first) != self._first:
            raise PipelineError(recreated(self._settings, known[TOPIC_ID], self._first))
        if TOPIC_ID not in known:
            if begun:
                logger.info(
                    "the tables do not record the id of their topic; assuming %s", self._first
                )
            if not self.properties.items() <= noted.items():
                self._tables.set_properties(self._spark, "bronze", self.properties)

    @property
    def properties(self) -> dict[str, str]:
        """The bronze table's properties that identify the topic. Empty if the topic has no id."""
        return {} if self._first == _NO_ID else {TOPIC: self._settings.topic, TOPIC_ID: self._first}

    def check(self) -> None:
        """Raise PipelineError if the topic was recreated since the run started."""
        now = self._id()
        if now != self._first:
            raise PipelineError(recreated(self._settings, self._first, now))

    def records_after_all_time(self) -> list[str]:
        """Return each partition's first record with a timestamp that Spark cannot represent.

        Each is formatted as `partition 0, offset 12`.
        """
        kafka: Any = self._spark._jvm.org.apache.kafka  # type: ignore[union-attr]
        partitions: Any = self._spark._jvm.java.util.HashMap()  # type: ignore[union-attr]
        for each in self._describe().partitions():
            place = kafka.common.TopicPartition(self._settings.topic, each.partition())
            partitions.put(place, kafka.clients.admin.OffsetSpec.forTimestamp(_LAST_TIME + 1))
        found = self._admin.listOffsets(partitions).all().get()
        offsets = sorted((place.partition(), found[place].offset()) for place in found)
        return [
            f"partition {partition}, offset {offset}"
            for partition, offset in offsets
            if offset >= 0
        ]

    def _id(self) -> str:
        return str(self._describe().topicId())

    def _describe(self) -> Any:
        topic = self._settings.topic
        names: Any = self._spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        names.add(topic)
        try:
            return self._admin.describeTopics(names).allTopicNames().get()[topic]
        except Py4JJavaError as error:
            cause = _cause(error)
            if "UnknownTopicOrPartitionException" in cause:
                raise PipelineError(
                    f"there is no topic {topic!r} at {self._settings.bootstrap_servers}: "
                    "create it or correct --topic"
                ) from error
            remedy = (
                "; grant the pipeline's user DESCRIBE and READ on it"
                if "AuthorizationException" in cause
                else ""
            )
            raise PipelineError(
                f"Kafka does not describe the topic {topic!r}: {cause}{remedy}"
            ) from error


def another_topic(settings: Settings, name: str) -> str:
    """Return the message about tables that were made from the topic `name`."""
    return (
        f"the tables at {settings.tables} were made from the topic {name!r}, not from "
        f"{settings.topic!r}: correct --topic, or set --tables to another location"
    )


def recreated(settings: Settings, before: str, now: str) -> str:
    """Return the message about a topic that had the id `before`."""
    checkpoints, tables = settings.checkpoint_root, settings.tables
    places = (
        tables
        if checkpoints.startswith(f"{tables.rstrip('/')}/")
        else f"{tables} and {checkpoints}"
    )
    return (
        f"the topic {settings.topic!r} was deleted and recreated: its id is {now}, and the "
        f"tables were made from {before}. Set --tables to another location for the new topic, "
        f"or delete {places} to start over"
    )


def _cause(error: Py4JJavaError) -> str:
    exception = error.java_exception
    return str((exception.getCause() or exception).toString())
