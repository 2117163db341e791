"""Computes consumer group lags: a component's input records that its group has not committed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # its stubs hide it

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

_ANSWER_SECS: Final = 5.0

Lags = Mapping[str, Mapping[int, int]]
"""By component and partition, the number of records that the task is behind."""


class LagReader:
    """Queries the lags from one Kafka."""

    def __init__(self, settings: Settings) -> None:
        self._admin = Admin(settings)

    def of(self, topology: str, tasks: Mapping[str, int]) -> Lags:
        """Return the lags of bolts and ackers, given their numbers of tasks.

        All components are queried at once. Lags that Kafka does not return are left out.
        """
        committed = self._committed(
            {f"{topology}.{component}": count for component, count in tasks.items()}
        )
        ends = self._ends(committed)
        found: dict[str, dict[int, int]] = {}
        for place in committed:
            if (place.topic, place.partition) in ends:
                behind = ends[place.topic, place.partition] - max(0, place.offset)
                found.setdefault(place.topic.removeprefix(f"{topology}."), {})[place.partition] = (
                    max(0, behind)
                )
        return found

    def _committed(self, counts: Mapping[str, int]) -> Sequence[TopicPartition]:
        """Return committed offsets. Topics and their groups have the same names."""
        asked = [
            ConsumerGroupTopicPartitions(
                name, [TopicPartition(name, number) for number in range(count)]
            )
            for name, count in counts.items()
        ]
        found: list[TopicPartition] = []
        for answer in self._admin.group_offsets(asked, _ANSWER_SECS).values():
            with suppress(KafkaException):
                found += (
                    place for place in answer.result().topic_partitions or () if place.error is None
                )
        return found

    def _ends(self, places: Sequence[TopicPartition]) -> Mapping[tuple[str, int], int]:
        if not places:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(place.topic, place.partition): latest for place in places}
        found = {}
        for place, answer in self._admin.client.list_offsets(
            asked, request_timeout=_ANSWER_SECS
        ).items():
            with suppress(KafkaException):
                found[place.topic, place.partition] = answer.result().offset
        return found
