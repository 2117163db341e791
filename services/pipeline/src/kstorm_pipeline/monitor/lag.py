"""How far a table is behind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lag:
    """What a table lacks of the topic."""

    records: int = 0
    oldest: float | None = None
    """The Kafka timestamp of the oldest of these records, in seconds since 1970; None if there is none."""

    def __add__(self, other: Lag) -> Lag:
        times = [each.oldest for each in (self, other) if each.oldest is not None]
        return Lag(self.records + other.records, min(times, default=None))
