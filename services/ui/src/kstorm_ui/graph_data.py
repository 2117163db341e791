"""Data for the script that draws the graph of a topology."""

from typing import Any, Final

from kstorm_ui import page_formatting
from kstorm_ui.topology_state import ComponentState, EdgeState, TopologyState

_BUSY_STEPS: Final = (0.3, 0.6, 0.85)
"""Shares of time from which a box has the next darker colour."""
_BLOCKED: Final = 0.2
"""Share of time spent waiting for others from which a box is marked."""


def graph(state: TopologyState) -> dict[str, Any]:
    """Return the boxes and lines."""
    return {
        "nodes": [_node(state, each) for each in state.components],
        "edges": [_edge(each) for each in state.edges],
    }


def _node(topology: TopologyState, state: ComponentState) -> dict[str, Any]:
    rate = state.emit_rate if state.kind == "spout" else state.execute_rate
    down = state.ready < state.processes
    blocked = state.blocked is not None and state.blocked >= _BLOCKED
    facts = [f"{page_formatting.rate(rate)}/s"]
    spoken = [state.kind, f"{state.ready}/{state.processes} processes ready"]
    if down:
        facts.append(f"{state.ready}/{state.processes} up")
    if state.busy is not None:
        facts.append(f"busy {page_formatting.share(state.busy)}")
    if blocked:
        spoken.append(f"waits for others {page_formatting.share(state.blocked)} of the time")
    more = []
    if state.lag is not None:
        more.append(f"lag {page_formatting.count(state.lag)}")
    if blocked:
        more.append(f"waits {page_formatting.share(state.blocked)}")
    time = ""
    if state.timed:
        behind = page_formatting.watermark(state.watermark, topology.looked)
        time = f"watermark {behind}"
    shown = [line for line in (" · ".join(facts), " · ".join(more), time) if line]
    return {
        "id": state.component,
        "name": page_formatting.shown(state.component),
        "kind": state.kind,
        "href": page_formatting.path("t", topology.name, "c", state.component),
        "facts": shown,
        # the name that screen readers read begins with the visible text
        "label": page_formatting.shown(", ".join([" ".join([state.component, *shown]), *spoken])),
        "down": down,
        "busy": None if state.busy is None else sum(state.busy >= step for step in _BUSY_STEPS),
        "blocked": blocked,
    }


def _edge(state: EdgeState) -> dict[str, Any]:
    about = "" if state.counted else "total emitted, "
    streams = ", ".join(
        f"{stream} ({grouping})" if grouping else stream
        for stream, grouping in zip(state.streams, state.groupings, strict=True)
    )
    says = (
        f"{state.source} to {state.target}: {about}{page_formatting.rate(state.rate)} tuples per second; "
        f"{streams}"
    )
    return {
        "source": state.source,
        "target": state.target,
        "rate": state.rate,
        "counted": state.counted,
        "text": f"{'' if state.counted else '≤ '}{page_formatting.rate(state.rate)}/s",
        "held": page_formatting.shown(state.held),
        "label": page_formatting.shown(f"{says}; held back: {state.held}" if state.held else says),
    }
