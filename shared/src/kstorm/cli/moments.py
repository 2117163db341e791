"""Moments that an operator gives, and that are shown."""

import re
from datetime import UTC, datetime
from typing import Final

from kstorm.cli.target import parse_target
from kstorm.errors import ConfigError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_since(text: str, now: int) -> int:
    """Reads what was given for `--since`, with the time of now, as ms since 1970; raises `ConfigError`."""
    if found := re.fullmatch("([0-9]{1,9})([smhd])", text):
        return now - int(found[1]) * _SECONDS[found[2]] * 1000
    try:
        moment = None if text in ("earliest", "latest") else parse_target(text).time
    except ConfigError:
        moment = None
    if moment is None:
        raise ConfigError(
            f"--since {text}: give so long ago (30m, 2h, 1d), a time (2026-03-01T08:00, UTC unless it says another zone), or a "
            "Unix time in ms (@1772352000000)"
        )
    return moment


def shown(at: int) -> str:
    """ms since 1970 as a time in UTC; a dash for 0."""
    if not at:
        return "–"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"
