"""Reads the committed offsets of groups and the ends of their topics, without an admin client.

With librdkafka 2.16, two requests of an admin client do not survive an outage of Kafka:

* A request for offsets goes to the group's coordinator. It aborts the process if it times out and
  Kafka returns later (confluentinc/librdkafka#4605), or if the broker is not the coordinator (#5040).
* A request for the ends of partitions fails forever after a restart of the broker.

Consumers ask in another way. They never join their groups, because they neither subscribe nor poll.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.client_errors import NOT_ALLOWED, raise_first_error

_ANSWER_SECS: Final = 20.0
_LEAST_SECS: Final = 0.1
_AGAIN_SECS: Final = 0.05


class OffsetReader:
    """Queries one Kafka. Keeps a consumer for each group."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.bootstrap_servers
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
            try:
                answer = _ask(consumers[group].committed, list(places), deadline)
            except KafkaException:
                break
            found += _without_error(answer)
        return found

    def stored(
        self, asked: Mapping[str, Sequence[TopicPartition]], within: float = _ANSWER_SECS
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions with a committed offset, by group. `within` is for all groups
        together.

        Raises `BrokerError` if Kafka does not report all of them.
        """
        deadline = time.monotonic() + within
        consumers = {group: self._consumer(group) for group in asked}
        found: dict[str, list[TopicPartition]] = {}
        for group, places in asked.items():
            try:
                answer = _ask(consumers[group].committed, list(places), deadline)
                raise_first_error(answer)
            except KafkaException as error:
                raise self._not_returned(group, error) from None
            found[group] = [place for place in answer if place.offset >= 0]
        return found

    def all_stored(self, group: str) -> list[TopicPartition]:
        """Return the partitions of all topics for which the group has committed an offset.

        Raises `BrokerError` if Kafka does not report them.
        """
        try:
            topics = self._consumer(group).list_topics(timeout=_ANSWER_SECS).topics.values()
        except KafkaException as error:
            raise self._not_returned(group, error) from None
        places = [
            TopicPartition(each.topic, number) for each in topics for number in each.partitions
        ]
        return self.stored({group: places})[group] if places else []

    def ends(self, places: Sequence[TopicPartition], within: float) -> list[TopicPartition]:
        """Return the end offsets of partitions, including open transactions.

        Partitions that Kafka does not answer for are left out.
        """
        if not places or not self._consumers:
            return []
        consumer = next(iter(self._consumers.values()))
        asked = [TopicPartition(place.topic, place.partition, OFFSET_END) for place in places]
        try:
            answer = _ask(consumer.offsets_for_times, asked, time.monotonic() + within)
        except KafkaException:
            return []
        return [place for place in _without_error(answer) if place.offset >= 0]

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = Consumer({**self._config, "group.id": group})
        return self._consumers[group]

    def _not_returned(self, group: str, error: KafkaException) -> BrokerError:
        return BrokerError(
            f"Kafka at {self._servers} did not return the offsets of the group {group!r}: "
            f"{error.args[0].str()}"
        )


def _ask(
    request: Callable[..., Sequence[TopicPartition]],
    places: Sequence[TopicPartition],
    deadline: float,
) -> Sequence[TopicPartition]:
    """Return the answer. Raises `KafkaException` if Kafka denies access, or does not answer in time.

    A new consumer returns an error at once until it knows its coordinator.
    """
    while True:
        left = max(_LEAST_SECS, deadline - time.monotonic())
        try:
            return request(places, timeout=left)
        except KafkaException as error:
            late = time.monotonic() + _AGAIN_SECS > deadline
            if late or error.args[0].code() in NOT_ALLOWED:
                raise
        time.sleep(_AGAIN_SECS)


def _without_error(places: Sequence[TopicPartition]) -> list[TopicPartition]:
    return [place for place in places if place.error is None]
