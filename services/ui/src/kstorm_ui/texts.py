"""Numbers and names as the pages write them."""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from kstorm.printable import printable
from kstorm.runtime.service.figures import format_age, format_error, format_seconds

NOTHING: Final = "–"


def count(value: float | None) -> str:
    """`12,345`."""
    return NOTHING if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """`0.4`, `12`, `1,050`: a second."""
    if value is None:
        return NOTHING
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def number(value: float) -> str:
    """`6`, `0.25`, `1,050`: whatever a component counts."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.3g}"


def latency(seconds: float | None) -> str:
    """`12 ms`, `3.4 s`."""
    return NOTHING if seconds is None else format_seconds(seconds)


def age(seconds: float | None) -> str:
    """`42 s`, `3 h`."""
    return NOTHING if seconds is None else format_age(seconds)


def moment(seconds: float) -> str:
    """`2026-11-25 09:41:07`, by UTC's clock; a dash if it is not known."""
    return (
        datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else NOTHING
    )


def share(value: float | None) -> str:
    """`93 %`."""
    return NOTHING if value is None else f"{value * 100:.0f} %"


def error(text: str, seconds: float | None) -> str:
    """The error with its age."""
    return format_error(text, seconds) if text else ""


def path(*names: object) -> str:
    """A path of names, each of which may be anything."""
    return "".join(f"/{quote(str(name), safe='')}" for name in names)


def link(text: str, *names: object) -> Markup:
    """A text that leads to a path of names."""
    return Markup('<a href="{}">{}</a>').format(path(*names), printable(text))


def shown(value: Any) -> Any:
    """What a template puts onto a page: no character that turns the order of what is read around."""
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value
