"""The graph's edges: declared ones, with what was counted on them, or what can be said without that."""

from collections.abc import Mapping, Sequence
from typing import Final

from kstorm.inspect.outline import OutlineEdge
from kstorm.runtime.service.figures import format_age
from kstorm_ui.counts import Edge
from kstorm_ui.state import ComponentState, EdgeState

_HELD_SECS: Final = 5.0
"""A component that has more work than this before it holds its input back."""
_BUSY: Final = 0.95
_MARKERS: Final = 10
"""Records of a partition that may be marks of transactions, which no group commits."""


def edges_of(
    declared: Sequence[OutlineEdge], rates: Mapping[str, Mapping[Edge, float]], components: Sequence[ComponentState]
) -> Sequence[EdgeState]:
    """One for each two components, whatever streams there are between them. `rates`: by source, what was counted a
    second, for each that counts."""
    by_id = {each.component: each for each in components}
    found: dict[tuple[str, str], list[OutlineEdge]] = {}
    for edge in declared:
        found.setdefault((edge.source, edge.target), []).append(edge)
    for source, counted in rates.items():
        for stream, target in counted:
            streams = found.setdefault((source, target), [])
            if stream not in [edge.stream for edge in streams]:
                streams.append(OutlineEdge(source, stream, target))
    return [
        _state(source, target, edges, rates, by_id)
        for (source, target), edges in found.items()
        if source in by_id and target in by_id and by_id[target].kind != "acker"
    ]


def _state(
    source: str,
    target: str,
    edges: Sequence[OutlineEdge],
    rates: Mapping[str, Mapping[Edge, float]],
    by_id: Mapping[str, ComponentState],
) -> EdgeState:
    counted = rates.get(source)
    return EdgeState(
        source=source,
        target=target,
        streams=[edge.stream for edge in edges],
        groupings=[edge.grouping for edge in edges],
        rate=by_id[source].emit_rate
        if counted is None
        else sum(counted.get((edge.stream, target), 0.0) for edge in edges),
        counted=counted is not None,
        held=_held(by_id[target]),
    )


def _held(target: ComponentState) -> str:
    """Why what is sent to it has to wait."""
    if not target.ready:
        return f"no process of {target.component} is ready"
    if (target.lag or 0) > _MARKERS * (target.tasks or 1) and target.behind is None:
        return f"{target.component} has {target.lag:,} frames before it and reads none"
    if target.behind is not None and target.behind > _HELD_SECS:
        return f"{target.component} is {format_age(target.behind)} behind"
    if target.busy is not None and target.busy >= _BUSY:
        return f"{target.component} is {target.busy:.0%} busy"
    return ""
