"""Contents of each page, computed from a topology's state for the templates and the drawing
scripts."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from kstorm.operations.status.bottlenecks import Bottleneck, describe
from kstorm.runtime.service.status_counters import StatusCounters
from kstorm_ui.grouped_troubles import grouped_causes, troubles_of
from kstorm_ui.history import HistoryPoint
from kstorm_ui.time_windows import TimeWindow
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.topology_state import ComponentState, TaskRow, TopologyState

_SKEW: Final = 3.0
_ROWS: Final = 10
_SOURCE_METRICS: Final = {
    "lag": "not done",
    "pending": "in flight",
    "retries": "waiting for a retry",
    "throttled": "partitions at their limit",
    "oldest_pending_seconds": "oldest in flight, seconds",
    "most_attempts": "most attempts of a message",
}


def health(state: TopologyState) -> str:
    """Describe the topology's health in a sentence.

    The text stays the same as long as nothing changes, because screen readers announce it.
    """
    if not state.answered:
        return "The topology is not found any more. This page shows its last known state."
    if state.troubles or state.missing:
        parts = [each.headline for each in troubles_of(state)]
        parts += [f"{component} has fewer processes than it should" for component in state.missing]
        return f"Missing or not ready: {'; '.join(parts)}."
    return f"All {sum(map(len, state.processes.values()))} processes are ready."


def held(state: TopologyState) -> Sequence[Bottleneck]:
    """Return the bottlenecks as sentences with evidence, the most significant first, as in `kstorm
    causes`. A cause that several components have in common is one sentence."""
    return [
        msgspec.structs.replace(cause, said=describe(cause, state.looked))
        for cause in grouped_causes(state.causes)
    ]


class ComponentRow(msgspec.Struct, frozen=True):
    """A component, with its counts in a time window."""

    component: str
    kind: str
    processes: int
    """Number of processes that should run."""
    ready: int
    tasks: int | None
    tasks_assigned: int
    emitted: int
    executed: int
    acked: int
    failed: int
    p50: float | None
    p99: float | None
    pending: int
    """Current value, like all fields below."""
    lag: int | None
    busy: float | None
    emit_rate: float
    execute_rate: float
    last_error: str
    last_error_age: float | None


def rows(state: TopologyState, window: TimeWindow) -> list[ComponentRow]:
    """Return one row per component, with its counts in the window."""
    return [
        _row(each, window.figures.get(each.component, StatusCounters()))
        for each in state.components
    ]


def _row(state: ComponentState, figures: StatusCounters) -> ComponentRow:
    now = {name: getattr(state, name) for name in ComponentRow.__struct_fields__}
    counted = {name: getattr(figures, name) for name in ("emitted", "executed", "acked", "failed")}
    return ComponentRow(
        **{**now, **counted, "p50": figures.latency(0.5), "p99": figures.latency(0.99)}
    )


def skew(tasks: Sequence[TaskRow]) -> float | None:
    """Return the ratio of the busiest task's load to the median. None if tasks report no load."""
    loads = [task.executed if task.executed is not None else task.emitted for task in tasks]
    known = [load for load in loads if load is not None]
    middle = median(known) if known else 0
    return max(known) / middle if middle else None


def skewed(value: float | None) -> bool:
    """Return True if the skew is worth mentioning."""
    return value is not None and value > _SKEW


def source_metric(name: str) -> str:
    return _SOURCE_METRICS.get(name, name.replace("_", " "))


def chart(
    memory: TopologyMemory, components: Sequence[str], keys: Sequence[str]
) -> dict[str, list[float | None]]:
    """Return the columns of a chart, summed over the components. `ago`: seconds relative to the
    newest sample."""
    found: dict[float, list[HistoryPoint]] = {}
    for component in components:
        for at, point in memory.history.points(component):
            found.setdefault(at, []).append(point)
    newest = max(found, default=0.0)
    columns: dict[str, list[float | None]] = {"ago": [at - newest for at in sorted(found)]}
    for key in keys:
        columns[key] = [_total(found[at], key) for at in sorted(found)]
    return columns


def last_minutes(columns: Mapping[str, Sequence[float | None]]) -> list[dict[str, float | None]]:
    """Return the chart as a table: the newest value of each of the last minutes, newest first."""
    found: dict[int, dict[str, float | None]] = {}
    for position, ago in enumerate(columns["ago"]):
        assert ago is not None
        found[int(-ago // 60)] = {key: values[position] for key, values in columns.items()}
    return [found[minute] for minute in sorted(found)[:_ROWS]]


def newest_p99(memory: TopologyMemory) -> float | None:
    """Return the largest p99 of the spouts in the newest sample, in seconds, or None."""
    return max(
        (
            point.p99
            for name in spouts(memory.state)
            if (point := memory.history.newest(name)) is not None and point.p99 is not None
        ),
        default=None,
    )


def spouts(state: TopologyState) -> list[str]:
    return [each.component for each in state.components if each.kind == "spout"]


def _total(points: Sequence[HistoryPoint], key: str) -> float | None:
    values = [value for point in points if (value := getattr(point, key)) is not None]
    return sum(values) if values else None
