"""Detects that a client has lost all broker addresses and cannot recover.

A broker that shuts down may report an empty broker list, as the last broker of a cluster does.
librdkafka (2.16) then drops all of its brokers. Its bootstrap addresses are gone too, because it
dropped them when it received the first broker list. With `metadata.recovery.strategy=none` it does
not recover. With `rebootstrap` it does, but calls that wait for an earlier broker may never return.
"""

from typing import Any, Final

from kstorm.errors import BrokerError
from kstorm.runtime.kafka.statistics import SELDOM_MS, ClientStatistics, read_statistics

_LOOKS: Final = 2
"""Number of consecutive statistics without a broker. More than one is needed, because there may be
a short gap between two brokers."""
_LOGICAL: Final = "logical"
"""Source of the placeholder for a group coordinator, which is not a broker itself."""


class BrokerLossDetector:
    """Detects a client that has lost all broker addresses."""

    def __init__(self) -> None:
        self._looks = 0

    @property
    def properties(self) -> dict[str, Any]:
        """librdkafka properties of a client whose statistics serve only this detector.

        The client must be polled even when idle, because librdkafka buffers statistics until then.
        """
        return {
            "statistics.interval.ms": SELDOM_MS,
            "stats_cb": lambda told: self.heard(read_statistics(told)),
        }

    def heard(self, statistics: ClientStatistics) -> None:
        known = any(broker.source != _LOGICAL for broker in statistics.brokers.values())
        self._looks = 0 if known else self._looks + 1

    @property
    def all(self) -> bool:
        """True if no broker is left."""
        return self._looks >= _LOOKS

    def check(self, topic: str) -> None:
        """Raise `error` if no broker is left."""
        if self.all:
            raise self.error(topic, "reads")

    def error(self, topic: str, does: str) -> BrokerError:
        """Return the error that ends the process. `does` describes the client's use of `topic`."""
        return BrokerError(
            f"the client that {does} {topic!r} has lost the addresses of all brokers, because a "
            "broker that shut down reported none: the process exits, and finds the brokers when "
            "it restarts"
        )
