"""Computes consumer group lags: a component's input records that its group has not committed.

Transaction markers and aborted records before the first such record, or before the end, do not
count.
"""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import TopicPartition

from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.offset_reader import OffsetReader
from kstorm.runtime.kafka.unread_records import UnreadRecords

_ANSWER_SECS: Final = 5.0
_RECORD_SECS: Final = 2.0

Lags = Mapping[str, Mapping[int, int]]
"""By component and partition, the number of records that the task is behind."""


class LagReader:
    """Queries the lags from one Kafka."""

    def __init__(self, settings: Settings) -> None:
        self._offsets, self._records = OffsetReader(settings), UnreadRecords(settings)

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
            Partition(place.topic, place.partition): place.offset
            for place in self._offsets.ends(committed, _ANSWER_SECS)
        }
        begins = {
            Partition(place.topic, place.partition): max(0, place.offset) for place in committed
        }
        unread = {
            partition: (begins[partition], end)
            for partition, end in ends.items()
            if begins[partition] < end
        }
        begins |= self._records.first(unread, _RECORD_SECS)
        found: dict[str, dict[int, int]] = {}
        for partition, begin in begins.items():
            if partition in ends:
                component = partition.topic.removeprefix(f"{topology}.")
                behind = max(0, ends[partition] - begin)
                found.setdefault(component, {})[partition.partition] = behind
        return found
