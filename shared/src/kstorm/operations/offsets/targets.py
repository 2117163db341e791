"""Targets for moving offsets: `earliest`, `latest`, an offset, or a point in time."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from kstorm.errors import ConfigError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME


@dataclass(frozen=True, slots=True)
class Target:
    """An offset or a point in time. The other field is None."""

    offset: int | None = None
    time: int | None = None
    """Unix time in ms, `EARLIEST_TIME` or `LATEST_TIME`."""


def parse_target(text: str) -> Target:
    """Parse `--to`. Raises `ConfigError` listing the valid forms."""
    if text in ("earliest", "latest"):
        return Target(time=EARLIEST_TIME if text == "earliest" else LATEST_TIME)
    if re.fullmatch("[0-9]{1,18}", text):
        return Target(offset=int(text))
    if re.fullmatch("@[0-9]{1,15}", text):
        return Target(time=int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        milliseconds = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise ConfigError(
            f"--to {text}: give earliest, latest, an offset (42), a time (2026-03-01T08:00, in UTC "
            "unless it has a zone), or a Unix time in ms (@1772352000000)"
        )
    return Target(time=milliseconds)


def parse_pair(text: str) -> tuple[int, int]:
    """Parse `PARTITION=OFFSET`. Raises `ConfigError`."""
    if not re.fullmatch("[0-9]{1,9}=[0-9]{1,18}", text):
        raise ConfigError(f"{text}: give PARTITION=OFFSET, such as 3=1200")
    partition, _, offset = text.partition("=")
    return int(partition), int(offset)
