"""Watermarks of tasks, for `/metrics` and `/status`."""

from collections.abc import Iterable
from typing import Any

from kstorm.core.watermarks import TaskTime
from kstorm.runtime.base.metrics import Sample
from kstorm.topology.event_time import NEVER, Mark


def watermark_metrics(times: Iterable[TaskTime]) -> Iterable[Sample]:
    """Yield the metric of each task's known watermark."""
    for time in times:
        if time.at > NEVER:
            yield (
                "watermark_seconds",
                "Watermark of a task, in Unix seconds of event time",
                time.at / 1000,
                {"task": str(time.task)},
            )


def shown_times(times: Iterable[TaskTime]) -> dict[str, dict[str, Any]]:
    """Return by task its watermark in Unix milliseconds, and the slowest of its inputs.

    An unknown watermark is None.
    """
    found: dict[str, dict[str, Any]] = {}
    for time in times:
        name, mark = time.holder or ("", Mark(NEVER))
        known = [one.at for _, one in time.inputs if one.at > NEVER]
        found[str(time.task)] = {
            "watermark": _known(time.at),
            "idle": time.idle,
            "waits_for": name,
            "waits_at": _known(mark.at),
            "most": max(known, default=None),
        }
    return found


def _known(at: int) -> int | None:
    return at if at > NEVER else None
