"""What librdkafka tells of a client's state every few seconds: so much of it as is looked at here."""

from typing import Final

import msgspec
from msgspec import Struct

INTERVAL_MS: Final = 2000
"""How often a reader shall tell."""
SELDOM_MS: Final = 5000
"""The same of a client that is only asked whether it knows brokers."""


class PartitionSeen(Struct):
    """A partition that is read; -1 where the client does not know it."""

    next_offset: int = -1
    """What it gives next."""
    ls_offset: int = -1
    """The first offset that is not stable, as a transaction is open there or the log ends."""
    hi_offset: int = -1
    """The log's end."""
    fetchq_cnt: int = 0
    """Records that were fetched and not given."""


class TopicSeen(Struct):
    """A topic with its partitions by number."""

    partitions: dict[str, PartitionSeen] = {}


class Requests(Struct):
    """How many requests were sent, by kind."""

    fetches: int = msgspec.field(default=0, name="Fetch")


class BrokerSeen(Struct):
    """A broker, or what stands for one."""

    source: str = ""
    """How the client came to know it: `configured`, `learned`, `logical` and others."""
    req: Requests = msgspec.field(default_factory=Requests)


class Statistics(Struct):
    """Of one client, at one moment."""

    topics: dict[str, TopicSeen] = {}
    brokers: dict[str, BrokerSeen] = {}

    def partition(self, topic: str, number: int) -> PartitionSeen | None:
        """None if it is not known."""
        return self.topics.get(topic, TopicSeen()).partitions.get(str(number))


read_statistics = msgspec.json.Decoder(Statistics).decode
"""What a `stats_cb` is given."""
