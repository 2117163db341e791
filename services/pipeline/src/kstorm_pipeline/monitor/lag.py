"""The lag of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLag:
    """The records of the topic that a table lacks."""

    records: int = 0
    oldest: float | None = None
    """Kafka timestamp of the oldest of these records in seconds since 1970, if there are any."""

    def __add__(self, other: TableLag) -> TableLag:
        times = [each.oldest for each in (self, other) if each.oldest is not None]
        return TableLag(self.records + other.records, min(times, default=None))
