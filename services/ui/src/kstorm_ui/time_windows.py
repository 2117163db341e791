"""The time windows of Storm's UI: ten minutes, three hours, a day, all time. Also computes how much
history each window covers."""

from collections.abc import Mapping
from typing import Final

import msgspec

from kstorm.runtime.service.status_counters import StatusCounters, format_age
from kstorm_ui.topology_memory import TopologyMemory

ALL: Final = "all"
WINDOWS: Final[Mapping[str, tuple[str, float | None]]] = {
    "600": ("10 min", 600.0),
    "10800": ("3 h", 10_800.0),
    "86400": ("1 day", 86_400.0),
    ALL: ("all time", None),
}
"""Label and seconds of each window, by its name in a URL."""


class TimeWindow(msgspec.Struct, frozen=True):
    """Counts in a window, by component."""

    key: str
    figures: Mapping[str, StatusCounters]
    says: str
    """Description of the time that it covers."""


def window(memory: TopologyMemory, key: str, now: float) -> TimeWindow:
    """Return a topology's window of that name, or all time for an unknown name."""
    key = key if key in WINDOWS else ALL
    label, secs = WINDOWS[key]
    if secs is None:
        return TimeWindow(
            key, memory.totals, "Counts of all runs of the processes that the web UI has seen."
        )
    before = memory.history.before(now - secs)
    since, figures = before if before is not None else (now, {})
    shown = {
        name: total - figures[name] if name in figures else total
        for name, total in memory.totals.items()
    }
    shown = {name: _now_pending(each, memory.totals[name]) for name, each in shown.items()}
    span = now - since
    if span >= secs:
        return TimeWindow(key, shown, f"Counts of the last {format_age(span)}.")
    return TimeWindow(
        key,
        shown,
        f"The web UI has watched for {format_age(span)}, "
        f"so the counts cover that time, not {label}.",
    )


def _now_pending(figures: StatusCounters, total: StatusCounters) -> StatusCounters:
    """Use the current value of "pending", which is a gauge, not a counter."""
    return figures + StatusCounters(pending=total.pending - figures.pending)
