"""Parse and format times of the command line."""

import re
from datetime import UTC, datetime
from typing import Final

from kstorm.errors import ConfigError
from kstorm.operations.offsets.targets import parse_target

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_since(text: str, now: int) -> int:
    """Parse `--since` as ms since 1970, relative to `now`. Raises `ConfigError`."""
    if found := re.fullmatch("([0-9]{1,9})([smhd])", text):
        return now - int(found[1]) * _SECONDS[found[2]] * 1000
    try:
        moment = None if text in ("earliest", "latest") else parse_target(text).time
    except ConfigError:
        moment = None
    if moment is None:
        raise ConfigError(
            f"--since {text}: give an age (30m, 2h, 1d), a time (2026-03-01T08:00, in UTC unless "
            "it has a zone), or a Unix time in ms (@1772352000000)"
        )
    return moment


def shown_time(at: int) -> str:
    """Format ms since 1970 as a time in UTC, or 0 as a dash."""
    if not at:
        return "–"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"
