"""Messages of one partition that have failed and are not finished, with the error of the last
attempt."""

import heapq

from msgspec import Struct

from kstorm.topology import Note, SpoutOutputCollector


class Failure(Struct, frozen=True):
    """A message that failed, as the web UI and `kstorm causes` show it."""

    topic: str
    partition: int
    offset: int
    attempts: int
    """Number of failed attempts."""
    error: str = ""
    """Type name of the last error. Empty if it is unknown, or if a bolt failed the tuple without
    one."""
    where: str = ""
    """File and line that raised it, if known."""
    timed_out: bool = False
    """True if the last attempt timed out."""


class Failures:
    """The failures of one partition, by offset."""

    def __init__(self, topic: str, partition: int) -> None:
        self._place = topic, partition
        self._by_offset: dict[int, Failure] = {}

    def failed(self, offset: int, attempts: int, collector: SpoutOutputCollector) -> None:
        """Record a failed attempt, with the collector's note."""
        note = collector.why_failed or Note(0)
        self._by_offset[offset] = Failure(
            *self._place, offset, attempts, note.type, note.where, collector.timed_out
        )

    def done(self, offset: int) -> None:
        """Forget a message that is finished."""
        self._by_offset.pop(offset, None)

    def worst(self, count: int) -> list[Failure]:
        """Return the messages that failed most often."""
        return heapq.nlargest(count, self._by_offset.values(), key=lambda one: one.attempts)
