"""Detects stuck transactions. An open transaction hides all later records of a partition from
readers.

kstorm's transactions are open for milliseconds. If the process dies within one, it stays open until
the process is back or the broker aborts it. librdkafka cannot list transactions. But each fetch
returns the last stable offset. If that stays the same while the log grows, a transaction is open at
that offset.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

from kstorm.runtime.kafka.statistics import ClientStatistics

_LONG_SECS: Final = 5.0  # all of kstorm's transactions are shorter


class OpenTransactions:
    """Open transactions of the partitions that one consumer reads.

    `heard` is called on the consumer's thread, and all other methods on the event loop.
    """

    def __init__(self, topic: str, now: Callable[[], float] = time.monotonic) -> None:
        self._topic, self._now = topic, now
        # By partition: the last stable offset, and the time at which it was first seen.
        self._since: dict[int, tuple[int, float]] = {}

    def heard(self, statistics: ClientStatistics, read: Collection[int]) -> None:
        """Evaluate librdkafka's statistics. `read` contains the partitions that are being fetched."""
        since, now = self._since, self._now()
        found: dict[int, tuple[int, float]] = {}
        for number in read:
            seen = statistics.partition(self._topic, number)
            if seen is not None and 0 <= seen.ls_offset < seen.hi_offset:
                known = since.get(number)
                found[number] = (
                    known
                    if known is not None and known[0] == seen.ls_offset
                    else (seen.ls_offset, now)
                )
        self._since = found

    @property
    def longest_secs(self) -> float:
        """Minimum age of the oldest stuck transaction, or 0 without one."""
        return max((self._now() - at for _, at in self._hanging().values()), default=0.0)

    def problem(self) -> str:
        """Description of the stuck transactions, or ""."""
        now = self._now()
        return "; ".join(
            f"topic {self._topic} partition {partition}: a transaction has been open for at least "
            f"{now - at:.0f} s, from offset {stable} on; readers wait for it"
            for partition, (stable, at) in sorted(self._hanging().items())
        )

    def _hanging(self) -> dict[int, tuple[int, float]]:
        now = self._now()
        return {
            partition: found
            for partition, found in self._since.items()
            if now - found[1] >= _LONG_SECS
        }
