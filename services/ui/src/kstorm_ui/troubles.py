"""Groups equal troubles of many processes into one line, so that an outage is one sentence."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kstorm.operations.status.bottlenecks import Bottleneck
from kstorm_ui.topology_state import TopologyState

_MOST_NAMED: Final = 3
_VARIABLE: Final = re.compile(r"\d+(?:[:.]\d+)*")
"""Times and numbers, which may differ between processes with the same trouble."""
_MERGED: Final = frozenset({"not there", "processes missing", "cannot work", "scaled to 0"})
"""Causes that one event brings to many components at once."""


class Trouble(msgspec.Struct, frozen=True):
    """A reason, and the processes that have it."""

    said: str
    names: Sequence[str]
    of: int
    """Number of processes of the topology."""

    @property
    def headline(self) -> str:
        """`count-0: …` for one process, `7 of 7 processes: …` for several."""
        if len(self.names) == 1:
            return f"{self.names[0]}: {self.said}"
        return f"{len(self.names)} of {self.of} processes: {self.said}"


def troubles_of(state: TopologyState) -> list[Trouble]:
    """Return the troubles of the processes, those of most processes first.

    Processes share a trouble if their texts are equal except for times and numbers. The trouble's
    text has the earliest time.
    """
    total = sum(map(len, state.processes.values()))
    found: dict[str, list[tuple[str, str]]] = {}
    for name, why in state.troubles:
        found.setdefault(_VARIABLE.sub("0", why), []).append((why, name))
    groups = [
        Trouble(min(why for why, _ in group), [name for _, name in group], total)
        for group in found.values()
    ]
    return sorted(groups, key=lambda each: -len(each.names))


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
