"""Computes consumer group lags: a component's input records that its group has not committed."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import TopicPartition

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.offset_reader import OffsetReader

_ANSWER_SECS: Final = 5.0

Lags = Mapping[str, Mapping[int, int]]
"""By component and partition, the number of records that the task is behind."""


class LagReader:
    """Queries the lags from one Kafka."""

    def __init__(self, settings: Settings) -> None:
        self._offsets = OffsetReader(settings)

    def of(self, topology: str, tasks: Mapping[str, int]) -> Lags:
        """Return the lags of bolts and ackers, given their numbers of tasks.

        All components are queried at once. Lags that Kafka does not return are left out. Topics and
        their groups have the same names.
        """
        asked = {
            f"{topology}.{component}": [
                TopicPartition(f"{topology}.{component}", number) for number in range(count)
            ]
            for component, count in tasks.items()
        }
        committed = self._offsets.committed(asked, _ANSWER_SECS)
        ends = {
            (place.topic, place.partition): place.offset
            for place in self._offsets.ends(committed, _ANSWER_SECS)
        }
        found: dict[str, dict[int, int]] = {}
        for place in committed:
            if (place.topic, place.partition) in ends:
                behind = ends[place.topic, place.partition] - max(0, place.offset)
                found.setdefault(place.topic.removeprefix(f"{topology}."), {})[place.partition] = (
                    max(0, behind)
                )
        return found
