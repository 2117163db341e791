"""The parts of librdkafka's client statistics that kstorm uses."""

from typing import Final

import msgspec
from msgspec import Struct

INTERVAL_MS: Final = 2000
"""Interval of a reader's statistics."""
SELDOM_MS: Final = 5000
"""Interval for a client whose statistics are only used to detect lost brokers."""


class PartitionStatistics(Struct):
    """A partition that is read. -1 means that a value is unknown."""

    next_offset: int = -1
    """The next offset that the client returns."""
    ls_offset: int = -1
    """The last stable offset: the start of an open transaction, or the end of the log."""
    hi_offset: int = -1
    """The end of the log."""
    fetchq_cnt: int = 0
    """Number of records that were fetched but not returned."""


class TopicStatistics(Struct):
    partitions: dict[str, PartitionStatistics] = {}


class RequestCounts(Struct):
    """Number of requests sent, by kind."""

    fetches: int = msgspec.field(default=0, name="Fetch")


class BrokerStatistics(Struct):
    """A broker or a placeholder for one."""

    source: str = ""
    """Origin of the entry: `configured`, `learned`, `logical` and others."""
    req: RequestCounts = msgspec.field(default_factory=RequestCounts)


class ClientStatistics(Struct):
    """Statistics of one client at one moment."""

    topics: dict[str, TopicStatistics] = {}
    brokers: dict[str, BrokerStatistics] = {}

    def partition(self, topic: str, number: int) -> PartitionStatistics | None:
        return self.topics.get(topic, TopicStatistics()).partitions.get(str(number))


read_statistics = msgspec.json.Decoder(ClientStatistics).decode
"""Decodes the argument of a `stats_cb`."""
