"""Notices that a client has forgotten all brokers, and so will never hear of one again.

A broker that ends may tell that there are none, as the last of its cluster does. librdkafka (2.16) then forgets the one that it
knows. What it was given to begin with it has forgotten when it first heard of a broker. With `metadata.recovery.strategy` as `none`
it does not begin anew; with `rebootstrap` it does, and calls that wait for a broker of before may never return.
"""

from typing import Any, Final

from kstorm.errors import BrokerError
from kstorm.runtime.kafka.statistics import SELDOM_MS, Statistics, read_statistics

_LOOKS: Final = 2
"""Statistics in a row: between two brokers there may be a moment without one."""
_LOGICAL: Final = "logical"
"""The source of what stands for whoever coordinates a group, and is no broker by itself."""


class Forgotten:
    """Of one client."""

    def __init__(self) -> None:
        self._looks = 0

    @property
    def properties(self) -> dict[str, Any]:
        """The librdkafka properties of a client that tells its statistics to nobody else. It must be polled now and then even if
        there is nothing to do: what is told is kept until then."""
        return {
            "statistics.interval.ms": SELDOM_MS,
            "stats_cb": lambda told: self.heard(read_statistics(told)),
        }

    def heard(self, statistics: Statistics) -> None:
        """Takes notice of librdkafka's statistics."""
        known = any(broker.source != _LOGICAL for broker in statistics.brokers.values())
        self._looks = 0 if known else self._looks + 1

    @property
    def all(self) -> bool:
        """Whether no broker is left."""
        return self._looks >= _LOOKS

    def check(self, topic: str) -> None:
        """Raises `error` if no broker is left."""
        if self.all:
            raise self.error(topic, "reads")

    def error(self, topic: str, does: str) -> BrokerError:
        """Why the process of a client that does this with a topic has to begin anew."""
        return BrokerError(
            f"the client that {does} {topic!r} has forgotten all brokers, since one that ended told it of none: the process "
            "ends, and one that begins anew finds them"
        )
