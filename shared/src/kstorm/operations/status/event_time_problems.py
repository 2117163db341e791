"""Find late tuples and inputs that hold event time back, from two snapshots of `/status`."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from kstorm.operations.formatting import duration
from kstorm.operations.status.snapshots import ComponentChange, StatusPage

_BEHIND: Final = 60_000
"""Milliseconds of event time behind the others from which an input is reported."""

_MOST_TOLD: Final = 5


class Late(Struct, frozen=True):
    """Tuples of a windowed bolt that are in no window."""

    said: str
    share: float
    """Share of all tuples between the two snapshots, 0 to 1."""


class Stalled(Struct, frozen=True):
    """An event time that does not advance."""

    said: str
    evidence: Sequence[str]


def event_time_causes(
    component: ComponentChange,
) -> Iterator[tuple[str, str, Sequence[str], float]]:
    """Yield the causes in event time: kind, description, evidence and weight."""
    if (late := late_tuples(component)) is not None:
        yield "late tuples", late.said, (), 0.3 + 0.3 * late.share
    if (stalled := stalled_time(component)) is not None:
        yield "event time", stalled.said, stalled.evidence[:_MOST_TOLD], 0.35


def late_tuples(component: ComponentChange) -> Late | None:
    """Return the late tuples between the two snapshots, if there are any."""
    late = sum(_grown("late_total", *pair) for pair in component.pairs())
    if late <= 0:
        return None
    total = late + sum(_grown("in_time_total", *pair) for pair in component.pairs())
    share = late / total
    said = (
        f"{component.name}: {share * 100:.1f} % of its tuples are late and in no window "
        f"({late:,.0f} of {total:,.0f}): raise with_lag, or give the spout an event_time"
    )
    return Late(said, share)


def stalled_time(component: ComponentChange) -> Stalled | None:
    """Return the inputs that held the watermark back through both snapshots, if there are any.

    Another input must be ahead. If none is, there is nothing to read.
    """
    found: dict[str, str] = {}
    for page, before in component.pairs():
        for task, time in page.get("watermarks", {}).items():
            then = before.get("watermarks", {}).get(task)
            held_by, at, most = (time.get(key) for key in ("waits_for", "waits_at", "most"))
            if then is None or time.get("idle") or not held_by or most is None:
                continue
            if at is None and then.get("waits_at") is None:
                found.setdefault(held_by, f"task {task} has no event time of {held_by} yet")
            elif at is not None and at == then.get("waits_at") and most - at > _BEHIND:
                behind = duration(most - at)
                found.setdefault(held_by, f"task {task} waits for {held_by}, {behind} behind")
    if not found:
        return None
    said = (
        f"{component.name}: event time does not advance because of {', '.join(found)}: look for "
        "messages that fail there, or set an idle timeout if no more messages will come"
    )
    return Stalled(said, list(found.values()))


def _grown(name: str, page: StatusPage, before: StatusPage) -> float:
    return float(page.get("own", {}).get(name, 0) - before.get("own", {}).get(name, 0))
