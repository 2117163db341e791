"""The benchmark's access to the broker: creates and deletes topics, and counts their records."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # its stubs hide it

from kstorm.dev.topic_cleanup import topic_names
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.topics import create_topic
from tests.bench.run_parameters import PARTITIONS

_TIMEOUT_SECS: Final = 30.0
_LOOK_SECS: Final = 0.2


class Broker:
    """The broker of a benchmark. Every method raises `BrokerError` if it does not answer."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._settings = Settings(topology="", bootstrap_servers=bootstrap)
        self._admin = Admin(self._settings)
        self._reader = self._new_reader()

    def create_source(self, topic: str) -> None:
        """Create a topic for sentences."""
        create_topic(self._settings, topic, PARTITIONS)
        self._await_leaders(topic)

    def create_sink(self, topic: str) -> None:
        """Create a topic for counts. The broker sets the timestamps of its records."""
        create_topic(self._settings, topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        self._await_leaders(topic)

    def topics(self) -> set[str]:
        """Return all topics except Kafka's own."""
        return {topic for topic in topic_names(self._settings) if not topic.startswith("__")}

    def ends(self, topic: str) -> dict[int, int]:
        """Return the number of records that each partition of a benchmark's topic has had.

        A client that asks for a new topic too early reports its partitions as unknown for a while.
        A new client then asks instead.
        """
        deadline = time.monotonic() + _TIMEOUT_SECS
        while True:
            try:
                return self._ends(topic)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"Kafka does not say what topic {topic!r} has: {error.args[0].str()}"
                    ) from None
            time.sleep(_LOOK_SECS)
            self._reader = self._new_reader()

    def first_stamp(self, topics: set[str]) -> float | None:
        """Return the earliest timestamp in these topics, in seconds since 1970, or None."""
        partitions = self._admin.partition_counts()
        first = OffsetSpec.for_timestamp(0)
        asked = {
            TopicPartition(topic, number): first
            for topic in topics
            for number in range(partitions[topic])
        }
        try:
            answers = self._admin.client.list_offsets(asked, request_timeout=_TIMEOUT_SECS)
            stamps = [answer.result().timestamp for answer in answers.values()]
        except KafkaException as error:
            raise BrokerError(
                f"Kafka does not say when its topics begin: {error.args[0].str()}"
            ) from None
        return min((stamp / 1000 for stamp in stamps if stamp >= 0), default=None)

    def remove(self, topics: set[str]) -> None:
        """Delete topics, and wait until the broker has deleted them."""
        try:
            removals = (
                self._admin.client.delete_topics(sorted(topics), operation_timeout=_TIMEOUT_SECS)
                if topics
                else {}
            )
            for done in removals.values():
                done.result()
        except KafkaException as error:
            raise BrokerError(
                f"Kafka would not remove {', '.join(sorted(topics))}: {error.args[0].str()}"
            ) from None

    def _new_reader(self) -> Consumer:
        return Consumer({**self._settings.client_config, "group.id": "bench-ends"})

    def _ends(self, topic: str) -> dict[int, int]:
        places = {partition: TopicPartition(topic, partition) for partition in range(PARTITIONS)}
        return {
            n: self._reader.get_watermark_offsets(place, _TIMEOUT_SECS)[1]
            for n, place in places.items()
        }

    def _await_leaders(self, topic: str) -> None:
        """Wait until each partition has a leader."""
        deadline = time.monotonic() + _TIMEOUT_SECS
        while True:
            found = self._admin.client.list_topics(topic, _TIMEOUT_SECS).topics[topic].partitions
            if len(found) == PARTITIONS and all(
                partition.leader >= 0 for partition in found.values()
            ):
                return
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"topic {topic!r} has no leaders {_TIMEOUT_SECS:.0f} s after it was created"
                )
            time.sleep(_LOOK_SECS)
