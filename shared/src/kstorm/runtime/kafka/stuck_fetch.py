"""Detects partitions that librdkafka fetches repeatedly without returning a record or an error.

This happens if a record contains an impossible value, such as a key of -2 bytes. librdkafka then
treats the batch as incomplete and fetches it again. Brokers accept such a record if it is
compressed, because they only check the length of whole records. The statistics then show a position
below the last stable offset, an empty queue, and a growing number of fetches.
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kstorm.kafka.cluster import Partition
from kstorm.runtime.kafka.statistics import ClientStatistics

_FETCHES: Final = 5
"""A partition is stuck after this number of fetches without a result. A long fetch of a large batch
counts as one."""


class _UnreadPartition(NamedTuple):
    """A partition with unread records."""

    offset: int
    fetches: int
    """The client's number of fetches when this state was first seen."""


class StuckFetchDetector:
    """Stuck partitions of one consumer. All methods are called on its thread."""

    def __init__(self) -> None:
        self._stands: dict[Partition, _UnreadPartition] = {}

    def heard(
        self, statistics: ClientStatistics, read: Collection[Partition]
    ) -> Iterator[tuple[Partition, int]]:
        """Evaluate librdkafka's statistics and yield stuck partitions with their offsets.

        `read` contains the partitions that are being fetched. Each call yields a stuck partition
        again, until it continues.
        """
        fetches = sum(broker.req.fetches for broker in statistics.brokers.values())
        stands: dict[Partition, _UnreadPartition] = {}
        for place in read:
            seen = statistics.partition(*place)
            if seen is None or seen.fetchq_cnt or not 0 <= seen.next_offset < seen.ls_offset:
                continue
            known = self._stands.get(place)
            stand = (
                known
                if known is not None and known.offset == seen.next_offset
                else _UnreadPartition(seen.next_offset, fetches)
            )
            stands[place] = stand
            if fetches - stand.fetches > _FETCHES:
                yield place, stand.offset
        self._stands = stands
