"""The edges of the graph: declared ones, with their counted rates or an estimate."""

from collections.abc import Mapping, Sequence

from kstorm.introspection.outline import OutlineEdge
from kstorm.operations.status.bottlenecks import Bottleneck
from kstorm_ui.counters import Edge
from kstorm_ui.topology_state import ComponentState, EdgeState


def edges_of(
    declared: Sequence[OutlineEdge],
    rates: Mapping[str, Mapping[Edge, float]],
    components: Sequence[ComponentState],
    causes: Sequence[Bottleneck],
) -> Sequence[EdgeState]:
    """Return one edge per pair of connected components, regardless of the number of streams.

    `rates` contains the counted tuples per second of each edge, by source, for sources that count
    them. `causes` are the topology's bottlenecks. An edge is held back by a bottleneck at its
    target, or by a Kafka outage.
    """
    held = {
        cause.component: cause.said
        for cause in reversed(causes)
        if cause.kind not in ("pending limit", "deactivated")
    }
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
        _state(source, target, edges, rates, by_id, held.get("", held.get(target, "")))
        for (source, target), edges in found.items()
        if source in by_id and target in by_id and by_id[target].kind != "acker"
    ]


def _state(
    source: str,
    target: str,
    edges: Sequence[OutlineEdge],
    rates: Mapping[str, Mapping[Edge, float]],
    by_id: Mapping[str, ComponentState],
    held: str,
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
        held=held,
    )
