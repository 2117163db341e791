"""What each page shows, made of a topology's state: for the templates, and for the scripts that draw."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import msgspec

from kstorm.inspect.causes import HoldUp, in_words
from kstorm.runtime.service.figures import Figures
from kstorm_ui import texts
from kstorm_ui.history import Point
from kstorm_ui.memory import Memory
from kstorm_ui.state import ComponentState, EdgeState, TaskState, TopologyState
from kstorm_ui.windows import Window

_SKEW: Final = 3.0
_ROWS: Final = 10


def health(state: TopologyState) -> str:
    """In a sentence, how the topology is; the same as long as nothing changes, since it is read out."""
    if not state.answered:
        return "It is not found any more; what stands here is the last that was seen."
    if state.troubles or state.missing:
        parts = [f"{name}: {why}" for name, why in state.troubles]
        parts += [f"{component} has fewer processes than it should" for component in state.missing]
        return f"Not there or not ready: {'; '.join(parts)}."
    return f"All {sum(map(len, state.processes.values()))} processes do their share."


def held(state: TopologyState) -> Sequence[HoldUp]:
    """What holds it back, a sentence each with its evidence, the most telling first: as `kstorm causes` says."""
    return [
        msgspec.structs.replace(cause, said=in_words(cause, state.looked)) for cause in state.causes
    ]


class ComponentRow(msgspec.Struct, frozen=True):
    """A component, with what was counted in a window."""

    component: str
    kind: str
    processes: int
    """That there should be."""
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
    """Now, as all that follows."""
    lag: int | None
    busy: float | None
    emit_rate: float
    execute_rate: float
    last_error: str
    last_error_age: float | None


def rows(state: TopologyState, window: Window) -> list[ComponentRow]:
    """The components in the window."""
    return [_row(each, window.figures.get(each.component, Figures())) for each in state.components]


def _row(state: ComponentState, figures: Figures) -> ComponentRow:
    now = {name: getattr(state, name) for name in ComponentRow.__struct_fields__}
    counted = {name: getattr(figures, name) for name in ("emitted", "executed", "acked", "failed")}
    return ComponentRow(
        **{**now, **counted, "p50": figures.latency(0.5), "p99": figures.latency(0.99)}
    )


def skew(tasks: Sequence[TaskState]) -> float | None:
    """How much more the busiest task has than the middle one; None if the tasks do not tell, or have nothing."""
    loads = [task.executed if task.executed is not None else task.emitted for task in tasks]
    known = [load for load in loads if load is not None]
    middle = median(known) if known else 0
    return max(known) / middle if middle else None


def skewed(value: float | None) -> bool:
    """Whether that is worth a word."""
    return value is not None and value > _SKEW


def graph(state: TopologyState) -> dict[str, Any]:
    """For the script that draws the graph."""
    return {
        "nodes": [_node(state.name, each) for each in state.components],
        "edges": [_edge(each) for each in state.edges],
    }


def chart(
    memory: Memory, components: Sequence[str], keys: Sequence[str]
) -> dict[str, list[float | None]]:
    """Columns for a chart, `ago` in seconds before the newest sample; values are summed over the components."""
    found: dict[float, list[Point]] = {}
    for component in components:
        for at, point in memory.history.points(component):
            found.setdefault(at, []).append(point)
    newest = max(found, default=0.0)
    columns: dict[str, list[float | None]] = {"ago": [at - newest for at in sorted(found)]}
    for key in keys:
        columns[key] = [_total(found[at], key) for at in sorted(found)]
    return columns


def last_minutes(columns: Mapping[str, Sequence[float | None]]) -> list[dict[str, float | None]]:
    """The chart as a table: its newest value of each of the last minutes, the newest first."""
    found: dict[int, dict[str, float | None]] = {}
    for position, ago in enumerate(columns["ago"]):
        assert ago is not None
        found[int(-ago // 60)] = {key: values[position] for key, values in columns.items()}
    return [found[minute] for minute in sorted(found)[:_ROWS]]


def spouts(state: TopologyState) -> list[str]:
    """The ids of the spouts."""
    return [each.component for each in state.components if each.kind == "spout"]


def _total(points: Sequence[Point], key: str) -> float | None:
    values = [value for point in points if (value := getattr(point, key)) is not None]
    return sum(values) if values else None


def _node(topology: str, state: ComponentState) -> dict[str, Any]:
    rate = state.emit_rate if state.kind == "spout" else state.execute_rate
    up = f"{state.ready}/{state.processes}"
    facts = [f"{texts.rate(rate)}/s", f"up {up}"]
    if state.lag is not None:
        facts.append(f"lag {texts.count(state.lag)}")
    spoken = [
        f"{state.component}, {state.kind}",
        f"{texts.rate(rate)} tuples a second",
        f"{up} processes ready",
    ]
    if state.lag is not None:
        spoken.append(f"{texts.count(state.lag)} records behind")
    return {
        "id": state.component,
        "name": texts.shown(state.component),
        "kind": state.kind,
        "href": texts.path("t", topology, "c", state.component),
        "facts": facts,
        "label": texts.shown(", ".join(spoken)),
        "down": state.ready < state.processes,
    }


def _edge(state: EdgeState) -> dict[str, Any]:
    about = "" if state.counted else "emitted in all, "
    streams = ", ".join(
        f"{stream} ({grouping})" if grouping else stream
        for stream, grouping in zip(state.streams, state.groupings, strict=True)
    )
    says = f"{state.source} to {state.target}: {about}{texts.rate(state.rate)} tuples a second; {streams}"
    return {
        "source": state.source,
        "target": state.target,
        "rate": state.rate,
        "counted": state.counted,
        "text": f"{'' if state.counted else '≤ '}{texts.rate(state.rate)}/s",
        "held": texts.shown(state.held),
        "label": texts.shown(f"{says}; held back: {state.held}" if state.held else says),
    }
