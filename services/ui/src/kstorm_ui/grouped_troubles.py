"""Groups equal troubles and causes, so that an outage is one sentence."""

from collections.abc import Iterable, Sequence
from typing import Final

from kstorm.operations.status.bottlenecks import Bottleneck
from kstorm.operations.status.troubles import Trouble, grouped
from kstorm_ui.topology_state import TopologyState

_MOST_NAMED: Final = 3
_MERGED: Final = frozenset({"not there", "processes missing", "cannot work", "scaled to 0"})
"""Causes that one event brings to many components at once."""


def troubles_of(state: TopologyState) -> list[Trouble]:
    """Return the troubles of the processes, those of most processes first."""
    return grouped(state.troubles, sum(map(len, state.processes.values())))


def grouped_causes(causes: Iterable[Bottleneck]) -> list[Bottleneck]:
    """Merge causes that several components have in common, and keep the order."""
    causes = list(causes)
    by_kind: dict[str, list[Bottleneck]] = {}
    for cause in causes:
        if cause.kind in _MERGED:
            by_kind.setdefault(cause.kind, []).append(cause)
    shown: list[Bottleneck] = []
    for cause in causes:
        group = by_kind.get(cause.kind, [cause])
        if len(group) == 1:
            shown.append(cause)
        elif cause is group[0]:
            shown.append(_merged(group))
    return shown


def _merged(group: Sequence[Bottleneck]) -> Bottleneck:
    names = [cause.component for cause in group]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    said = f"{_SAID[group[0].kind]} {len(names)} components: {', '.join(names[:_MOST_NAMED])}{more}"
    evidence = [line for cause in group for line in cause.evidence or [cause.said]]
    since = min((cause.since for cause in group if cause.since), default=None)
    return Bottleneck("", group[0].kind, said, evidence, group[0].weight, since)


_SAID: Final = {
    "not there": "no process is ready of",
    "processes missing": "processes are missing in",
    "cannot work": "some processes are not ready in",
    "scaled to 0": "no process should run of",
}
