"""Notices that librdkafka fetches a partition again and again and gives nothing of it, not even an error.

It does so where a record says something impossible of itself, such as a key of -2 bytes: it takes the batch for a piece of one, and
asks for it again. A broker lets such a record in if it is compressed, as it looks only at how long each is as a whole. What
librdkafka's statistics show then is a position that stands below the stable end, an empty queue, and more and more fetches.
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kstorm.kafka.cluster import Partition
from kstorm.runtime.kafka.statistics import Statistics

_FETCHES: Final = 5
"""So many answers that give nothing. One that is under way for long, as a large batch may be, is one fetch."""


class _Stand(NamedTuple):
    """A partition that has more to read than was given."""

    offset: int
    fetches: int
    """How many the client had sent when that was first seen."""


class Silences:
    """Of the partitions that one consumer reads; all is called on its thread."""

    def __init__(self) -> None:
        self._stands: dict[Partition, _Stand] = {}

    def heard(
        self, statistics: Statistics, read: Collection[Partition]
    ) -> Iterator[tuple[Partition, int]]:
        """Takes notice of librdkafka's statistics. `read` are the partitions that are fetched now. Those that are silent, with the
        offset at which they stand: again with each call, until they go on."""
        fetches = sum(broker.req.fetches for broker in statistics.brokers.values())
        stands: dict[Partition, _Stand] = {}
        for place in read:
            seen = statistics.partition(*place)
            if seen is None or seen.fetchq_cnt or not 0 <= seen.next_offset < seen.ls_offset:
                continue
            known = self._stands.get(place)
            stand = (
                known
                if known is not None and known.offset == seen.next_offset
                else _Stand(seen.next_offset, fetches)
            )
            stands[place] = stand
            if fetches - stand.fetches > _FETCHES:
                yield place, stand.offset
        self._stands = stands
