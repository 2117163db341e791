"""Notices that librdkafka fetches a partition again and again and gives nothing of it, not even an error.

It does so where a record says something impossible of itself, such as a key of -2 bytes: it takes the batch for a piece of one, and
asks for it again. A broker lets such a record in if it is compressed, as it looks only at how long each is as a whole. What
librdkafka's statistics show then is a position that stands below the stable end, an empty queue, and more and more fetches.
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import msgspec

from kstorm.kafka.cluster import Partition

_FETCHES: Final = 5
"""So many answers that give nothing. One that is under way for long, as a large batch may be, is one fetch."""


class _Partition(msgspec.Struct):
    next_offset: int = -1
    ls_offset: int = -1
    fetchq_cnt: int = 0


class _Topic(msgspec.Struct):
    partitions: dict[str, _Partition] = {}


class _Requests(msgspec.Struct):
    fetches: int = msgspec.field(default=0, name="Fetch")


class _Broker(msgspec.Struct):
    req: _Requests = msgspec.field(default_factory=_Requests)


class _Statistics(msgspec.Struct):
    topics: dict[str, _Topic] = {}
    brokers: dict[str, _Broker] = {}


class _Stand(NamedTuple):
    """A partition that has more to read than was given."""

    offset: int
    fetches: int
    """How many the client had sent when that was first seen."""


_read = msgspec.json.Decoder(_Statistics).decode


class Silences:
    """Of the partitions that one consumer reads; all is called on its thread."""

    def __init__(self) -> None:
        self._stands: dict[Partition, _Stand] = {}

    def heard(self, statistics: str, read: Collection[Partition]) -> Iterator[tuple[Partition, int]]:
        """Takes notice of librdkafka's statistics. `read` are the partitions that are fetched now. Those that are silent, with the
        offset at which they stand: again with each call, until they go on."""
        told = _read(statistics)
        fetches = sum(broker.req.fetches for broker in told.brokers.values())
        stands: dict[Partition, _Stand] = {}
        for place in read:
            seen = told.topics.get(place.topic, _Topic()).partitions.get(str(place.partition))
            if seen is None or seen.fetchq_cnt or not 0 <= seen.next_offset < seen.ls_offset:
                continue
            known = self._stands.get(place)
            stand = (
                known if known is not None and known.offset == seen.next_offset else _Stand(seen.next_offset, fetches)
            )
            stands[place] = stand
            if fetches - stand.fetches > _FETCHES:
                yield place, stand.offset
        self._stands = stands
