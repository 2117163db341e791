"""Describes the evidence for a bottleneck."""

from collections.abc import Mapping, Sequence
from typing import Final

from kstorm.operations.status.snapshots import ComponentChange, ProcessSnapshot, StatusPage

MOST_TOLD: Final = 5


def described(processes: Sequence[ProcessSnapshot]) -> list[str]:
    told = [f"{process.name}: {process.not_ready}" for process in processes[:MOST_TOLD]]
    return [*told, f"and {len(processes) - MOST_TOLD} more"] if len(processes) > MOST_TOLD else told


def since_when(processes: Sequence[ProcessSnapshot]) -> float | None:
    return min((process.since for process in processes if process.since), default=None)


def holds_since(component: ComponentChange, wait: str) -> float | None:
    """Return since when the longest current wait lasts, if it started before the first snapshot."""
    times = [page.get("waits_since", {}).get(wait) for page in component.after.pages]
    known = [float(time) for time in times if time]
    before = [page.get("waits_since", {}).get(wait) for page in component.before.pages]
    return min(known) if known and min(known) in [float(time) for time in before if time] else None


def of_lag(component: ComponentChange) -> list[str]:
    return list(filter(None, [component.said_of_lag(), component.most_behind()]))


def advice_for(component: ComponentChange) -> str:
    return ": add ackers" if component.kind == "acker" else ""


def shown_shares(shares: Mapping[str, float], least: float, of_what: str) -> list[str]:
    return [
        f"{instance}: {percent(share)} {of_what}"
        for instance, share in shares.items()
        if share >= least
    ]


def percent(share: float) -> str:
    return f"{min(1.0, share) * 100:.0f} %"


def instance_of(page: StatusPage) -> str:
    return str(page.get("instance", "?"))


def waited(cause: str, page: StatusPage) -> float:
    return float(page.get("waits", {}).get(cause, 0.0))
