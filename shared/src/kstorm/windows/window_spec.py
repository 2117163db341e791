"""Lengths and slides of windows, by tuples or by time (Storm's `BaseWindowedBolt.Count` and
`Duration`)."""

import math
from dataclasses import dataclass
from datetime import timedelta

from kstorm.errors import ConfigError
from kstorm.fitting import fits


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tuples. Raises `ConfigError` unless it is a whole number of at least 1."""

    tuples: int

    def __post_init__(self) -> None:
        if not isinstance(self.tuples, int) or isinstance(self.tuples, bool) or self.tuples < 1:
            raise ConfigError(
                f"Count({self.tuples!r}): the length of a window must be a whole number of "
                "tuples, at least 1"
            )

    def __str__(self) -> str:
        return f"{self.tuples} tuples"


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of milliseconds. Raises `ConfigError` unless it is a whole number of at least 1."""

    ms: int

    def __post_init__(self) -> None:
        if not isinstance(self.ms, int) or isinstance(self.ms, bool) or self.ms < 1:
            raise ConfigError(
                f"Duration({self.ms!r}): it must be a whole number of milliseconds, at least 1"
            )

    @classmethod
    def of(cls, ms: int) -> "Duration":
        """Make a duration of `ms` milliseconds."""
        return cls(ms)

    @classmethod
    def seconds(cls, seconds: float) -> "Duration":
        """Make a duration, rounded to milliseconds."""
        return cls._from(seconds, 1000)

    @classmethod
    def minutes(cls, minutes: float) -> "Duration":
        """Make a duration, rounded to milliseconds."""
        return cls._from(minutes, 60_000)

    @classmethod
    def hours(cls, hours: float) -> "Duration":
        """Make a duration, rounded to milliseconds."""
        return cls._from(hours, 3_600_000)

    @classmethod
    def days(cls, days: float) -> "Duration":
        """Make a duration of days of 24 hours."""
        return cls._from(days, 86_400_000)

    @classmethod
    def _from(cls, number: float, unit_ms: int) -> "Duration":
        if not fits(number, float) or not math.isfinite(number):
            raise ConfigError(f"the length of a Duration is {number!r}: it must be a finite number")
        if not number > 0:
            raise ConfigError(f"the length of a Duration is {number!r}: it must be above 0")
        return cls(round(number * unit_ms))

    def __str__(self) -> str:
        return f"{self.ms / 1000:g} s"


Extent = Count | Duration


def extent(given: Extent | timedelta) -> Extent:
    """Return a window extent. A `timedelta` becomes a `Duration`. Raises `ConfigError` for other
    types."""
    if isinstance(given, timedelta):
        return Duration.seconds(given.total_seconds())
    if not isinstance(given, Extent):
        raise ConfigError(
            f"{given!r} is not a window length: give Count(100), Duration.seconds(5) or a timedelta"
        )
    return given


def duration(given: Duration | timedelta) -> Duration:
    """Return a duration. A `timedelta` becomes a `Duration`. Raises `ConfigError` for other
    types."""
    found = extent(given)
    if not isinstance(found, Duration):
        raise ConfigError(f"{given!r} is not a duration: give Duration.seconds(5) or a timedelta")
    return found
