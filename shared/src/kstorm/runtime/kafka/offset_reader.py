"""Reads the committed offsets of groups and the ends of their topics, without an admin client.

With librdkafka 2.16, two requests of an admin client do not survive an outage of Kafka:

* A request to a group's coordinator aborts the process, if the connection breaks:
  `rd_kafka_enq_once_del_source_return: Assertion failed` (confluentinc/librdkafka#4605).
* A request for the ends of partitions fails forever after a restart of the broker.

Consumers ask in another way. They never join their groups, because they neither subscribe nor poll.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from kstorm.runtime.base.settings import Settings

_LEAST_SECS: Final = 0.1
_AGAIN_SECS: Final = 0.05


class OffsetReader:
    """Queries one Kafka. Keeps a consumer for each group."""

    def __init__(self, settings: Settings) -> None:
        self._config = {
            **settings.client_config,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
        self._consumers: dict[str, Consumer] = {}

    def committed(
        self, asked: Mapping[str, Sequence[TopicPartition]], within: float
    ) -> list[TopicPartition]:
        """Return the committed offsets of partitions, by group. `within` is for all groups together.

        The offset is negative if the group has committed none. Groups that Kafka does not answer
        for are left out. Stops at the first of these, because the others would wait as well.
        """
        deadline = time.monotonic() + within
        consumers = {group: self._consumer(group) for group in asked}  # all find their coordinators
        found: list[TopicPartition] = []
        for group, places in asked.items():
            answer = _ask(consumers[group].committed, list(places), deadline)
            if answer is None:
                break
            found += answer
        return found

    def ends(self, places: Sequence[TopicPartition], within: float) -> list[TopicPartition]:
        """Return the end offsets of partitions, including open transactions.

        Partitions that Kafka does not answer for are left out.
        """
        if not places or not self._consumers:
            return []
        consumer = next(iter(self._consumers.values()))
        asked = [TopicPartition(place.topic, place.partition, OFFSET_END) for place in places]
        answer = _ask(consumer.offsets_for_times, asked, time.monotonic() + within)
        return [place for place in answer or () if place.offset >= 0]

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = Consumer({**self._config, "group.id": group})
        return self._consumers[group]


def _ask(
    request: Callable[..., Sequence[TopicPartition]],
    places: Sequence[TopicPartition],
    deadline: float,
) -> Sequence[TopicPartition] | None:
    """Return the answer for the partitions without an error. None: Kafka does not answer in time.

    A new consumer returns an error at once until it knows its coordinator.
    """
    while True:
        left = max(_LEAST_SECS, deadline - time.monotonic())
        try:
            answer = request(places, timeout=left)
        except KafkaException:
            if time.monotonic() + _AGAIN_SECS > deadline:
                return None
            time.sleep(_AGAIN_SECS)
        else:
            return [place for place in answer if place.error is None]
