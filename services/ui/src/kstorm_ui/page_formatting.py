"""Formats numbers and names for the pages."""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from kstorm.printable import printable
from kstorm.runtime.service.status_counters import format_age, format_error, format_seconds

NOTHING: Final = "–"


def count(value: float | None) -> str:
    """Format a count: `12,345`."""
    return NOTHING if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Format a rate per second: `0.4`, `12`, `1,050`."""
    if value is None:
        return NOTHING
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def number(value: float) -> str:
    """Format a component's own metric: `6`, `0.25`, `1,050`."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.3g}"


def latency(seconds: float | None) -> str:
    """Format a latency: `12 ms`, `3.4 s`."""
    return NOTHING if seconds is None else format_seconds(seconds)


def age(seconds: float | None) -> str:
    """Format an age: `42 s`, `3 h`."""
    return NOTHING if seconds is None else format_age(seconds)


def moment(seconds: float) -> str:
    """Format a Unix time in UTC: `2026-11-25 09:41:07`. A dash if it is not known."""
    return (
        datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else NOTHING
    )


def event_time(ms: int | None) -> str:
    """Format a watermark: `2026-11-25 09:41:07`. The tuples may have any time."""
    if ms is None:
        return NOTHING
    try:
        return moment(ms / 1000)
    except (OverflowError, ValueError, OSError):
        return f"{ms:,} ms"


def watermark(ms: int | None, now: float) -> str:
    """Format a watermark as its distance to the clock: `12 s behind`. Event times that are not near
    the clock are dates."""
    if ms is None:
        return "none yet"
    behind = now - ms / 1000
    if 0 <= behind < 86_400:
        return f"{format_age(behind)} behind"
    return event_time(ms)


def clock(seconds: float) -> str:
    """Format a Unix time of today: `09:41:07`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def share(value: float | None) -> str:
    """Format a share: `93 %`."""
    return NOTHING if value is None else f"{value * 100:.0f} %"


def small_share(value: float | None) -> str:
    """Format a share that is small if all is well: `0.4 %`."""
    if value is None or value == 0 or value >= 0.0995:
        return share(value)
    return "< 0.1 %" if value < 0.0005 else f"{value * 100:.1f} %"


def error(text: str, seconds: float | None) -> str:
    """Format an error with its age."""
    return format_error(text, seconds) if text else ""


def path(*names: object) -> str:
    """Return a path of names. Each name may contain any characters."""
    return "".join(f"/{quote(str(name), safe='')}" for name in names)


def link(text: str, *names: object) -> Markup:
    """Return a link to a path of names."""
    return Markup('<a href="{}">{}</a>').format(path(*names), printable(text))


def shown(value: Any) -> Any:
    """Escape control characters and characters that reverse the reading direction, except in
    markup."""
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value
