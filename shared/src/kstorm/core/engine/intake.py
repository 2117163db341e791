"""Limits the input in progress of a process, which is polled but not finished.

Like all decisions, this one belongs to the engine. The driver only obeys: while `full` is True, it
does not poll.
"""

from kstorm.core.engine.units import Unit

HIGH_RECORDS, LOW_RECORDS = 4000, 1000
HIGH_BYTES, LOW_BYTES = 48 << 20, 12 << 20

_SECS_A_RECORD, _SECS_A_BYTE, _MOST_SECS = 0.001, 1 / 500_000, 0.02
_MORE_SECS_A_BYTE, _MORE_SECS_A_TARGET, _MOST_MORE_SECS = 1 / 1_000_000, 0.0025, 0.03


def gathering_secs(records: int, size: int, targets: int) -> float:
    """Return the shortest time from a poll to the next one, in seconds.

    `records` and `size` (bytes) are those of the first poll, and `targets` the number of tasks that
    may receive its results. Each of them costs a produce request. At a low rate, no record waits
    longer because of it. At a high rate, the next poll gathers the input of up to 50 ms. Beyond
    20 ms only bytes count, because with many tasks even a few messages per second become many small
    records. With few targets there is little to save, and `topology_max_spout_pending` would limit
    the rate.
    """
    few = min(_MOST_SECS, records * _SECS_A_RECORD + size * _SECS_A_BYTE)
    most_more = min(_MOST_MORE_SECS, targets * _MORE_SECS_A_TARGET)
    return few + min(most_more, size * _MORE_SECS_A_BYTE)


class Intake:
    """Counts the records in progress and their bytes.

    It is full above one of the high marks, and stays full until both counts have fallen to their
    low marks. The marks are far apart, because a pause is expensive: Kafka's client discards the
    records that it has prefetched.
    """

    __slots__ = ("bytes", "full", "high", "low", "records")

    def __init__(
        self,
        high: tuple[int, int] = (HIGH_RECORDS, HIGH_BYTES),
        low: tuple[int, int] = (LOW_RECORDS, LOW_BYTES),
    ) -> None:
        """`high` and `low` are records and bytes."""
        self.high, self.low = high, low
        self.records = self.bytes = 0
        self.full = False
        """True while no more input may be polled. Other threads may read it."""

    def take(self, records: int, size: int) -> Unit:
        """Count a poll. Its records are finished when the returned unit is done."""
        self.records += records
        self.bytes += size
        if self.records > self.high[0] or self.bytes > self.high[1]:
            self.full = True
        return Unit(lambda: self._finish(records, size))

    def _finish(self, records: int, size: int) -> None:
        self.records -= records
        self.bytes -= size
        if self.records <= self.low[0] and self.bytes <= self.low[1]:
            self.full = False
