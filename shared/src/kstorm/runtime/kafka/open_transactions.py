"""Notices that a transaction hangs: readers of a partition see nothing behind the first record of one that is open.

A transaction of ours is open for milliseconds. One whose process died within it stays open until that process is back or the broker
gives it up. Kafka's clients cannot list transactions here, but a reader hears with each fetch up to where its partition is stable:
if that stays the same while the log goes on behind it, something is open there.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

from kstorm.runtime.kafka.statistics import Statistics

_LONG_SECS: Final = 5.0  # no transaction of ours that comes to its end takes so long


class OpenTransactions:
    """Of the partitions that one consumer reads. `heard` is called on its thread, the rest on the event loop."""

    def __init__(self, topic: str, now: Callable[[], float] = time.monotonic) -> None:
        self._topic, self._now = topic, now
        self._since: dict[
            int, tuple[int, float]
        ] = {}  # by partition, where it is stable and when that was first seen

    def heard(self, statistics: Statistics, read: Collection[int]) -> None:
        """Takes notice of librdkafka's statistics; `read` are the partitions that are fetched, so that it knows of them."""
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
        """For how long at least the oldest one is open; 0 if there is none, or none that hangs."""
        return max((self._now() - at for _, at in self._hanging().values()), default=0.0)

    def problem(self) -> str:
        """Where one hangs, in words; empty if none does."""
        now = self._now()
        return "; ".join(
            f"topic {self._topic} partition {partition}: a transaction is open since at least {now - at:.0f} s, "
            f"from offset {stable} on; readers wait"
            for partition, (stable, at) in sorted(self._hanging().items())
        )

    def _hanging(self) -> dict[int, tuple[int, float]]:
        now = self._now()
        return {
            partition: found
            for partition, found in self._since.items()
            if now - found[1] >= _LONG_SECS
        }
