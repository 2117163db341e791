"""Pages of a topology and of a component."""

from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.operations.status.bottlenecks import Bottleneck
from kstorm_ui import page_formatting, view_data
from kstorm_ui.graph_data import graph
from kstorm_ui.history import HOUR
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site, json
from kstorm_ui.stream import stream
from kstorm_ui.time_windows import window
from kstorm_ui.timeline import KINDS
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.topology_state import ComponentState, EdgeState, ProcessState, TaskRow

_TOPOLOGY_KEYS: Final = ("acked", "failed")
_COMPONENT_KEYS: Final = ("emitted", "executed", "failed")
_TOPOLOGY: Final = "/t/{topology}"
_COMPONENT: Final = "/t/{topology}/c/{component}"


class TopologyShown(msgspec.Struct, frozen=True):
    name: str
    place: str
    active: bool
    health: str
    """The topology's health in one sentence."""
    problem: str
    """Reason why the last poll failed, or ""."""
    causes: Sequence[Bottleneck]
    """Bottlenecks, the most significant first."""
    window: str
    """Time window of the counts: `600`, `10800`, `86400`, `all`."""
    window_says: str
    """Description of the time that the counts cover."""
    components: Sequence[view_data.ComponentRow]
    edges: Sequence[EdgeState]


class ComponentShown(msgspec.Struct, frozen=True):
    component: ComponentState
    problem: str
    processes: Sequence[ProcessState]
    tasks: Sequence[TaskRow]
    skew: float | None
    """Ratio of the busiest task's load to the median."""


def routes(site: Site) -> list[Route]:
    """Return each page with the stream that updates it, the columns of its chart, and its JSON."""
    pages = _TopologyPages(site)
    return [
        Route(_TOPOLOGY, pages.topology),
        Route(f"{_TOPOLOGY}/stream", pages.topology_stream),
        Route(f"{_TOPOLOGY}/history", pages.topology_history),
        Route(f"{_TOPOLOGY}/status", pages.status_stream),
        site.api(_TOPOLOGY, partial(_topology, site)),
        Route(_COMPONENT, pages.component),
        Route(f"{_COMPONENT}/stream", pages.component_stream),
        Route(f"{_COMPONENT}/history", pages.component_history),
        site.api(_COMPONENT, partial(_component, site)),
    ]


async def _topology(site: Site, request: Request) -> PageResult:
    return _shown_topology(site, site.memory(request), _window(request))


async def _component(site: Site, request: Request) -> PageResult:
    return _shown_component(site, *site.component(request))


def _window(request: Request) -> str:
    return request.query_params.get("window", "600")


def _shown_topology(site: Site, memory: TopologyMemory, key: str) -> PageResult:
    state, chosen = memory.state, window(memory, key, monotonic())
    data = TopologyShown(
        name=state.name,
        place=state.place,
        active=state.active,
        health=view_data.health(state),
        problem=site.collector.problem,
        causes=view_data.held(state),
        window=chosen.key,
        window_says=chosen.says,
        components=view_data.rows(state, chosen),
        edges=state.edges,
    )
    return PageResult(data, state=state)


def _shown_component(site: Site, memory: TopologyMemory, name: str) -> PageResult:
    state = memory.state
    component, tasks = state.component(name), state.tasks.get(name, ())
    assert component is not None
    processes = state.processes.get(name, ())
    data = ComponentShown(
        component, site.collector.problem, processes, tasks, view_data.skew(tasks)
    )
    return PageResult(data, state=state)


class _TopologyPages:
    """The endpoints for browsers."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def topology(self, request: Request) -> Response:
        memory = self._site.memory(request)
        columns = view_data.chart(memory, view_data.spouts(memory.state), _TOPOLOGY_KEYS)
        shown = _shown_topology(self._site, memory, _window(request))
        return self._site.page(
            "topology.html", **shown.values, minutes=view_data.last_minutes(columns)
        )

    async def topology_stream(self, request: Request) -> Response:
        memory, key = self._site.memory(request), _window(request)

        def piece() -> tuple[str, Any]:
            shown = _shown_topology(self._site, memory, key)
            html = self._site.render("_topology.html", **shown.values, minutes=None)
            points = view_data.chart(memory, view_data.spouts(memory.state), _TOPOLOGY_KEYS)
            sample = {"point": _last(points), "marks": self._marks(memory)}
            return html, {**graph(memory.state), **sample}

        return stream(self._site.collector, piece)

    async def topology_history(self, request: Request) -> Response:
        memory = self._site.memory(request)
        columns = view_data.chart(memory, view_data.spouts(memory.state), _TOPOLOGY_KEYS)
        return json({**columns, "marks": self._marks(memory)})

    async def status_stream(self, request: Request) -> Response:
        memory = self._site.memory(request)

        def piece() -> tuple[str, Any]:
            html = self._site.render("_status_and_actions.html", state=memory.state)
            return html, {}

        return stream(self._site.collector, piece)

    def _marks(self, memory: TopologyMemory) -> list[dict[str, Any]]:
        """Return the marks of the last hour, `ago` in seconds relative to the newest sample."""
        looked = memory.state.looked
        return [
            {
                "ago": mark.at - looked,
                "kind": mark.kind,
                "letter": KINDS[mark.kind],
                "said": page_formatting.shown(mark.said),
                "clock": page_formatting.clock(mark.at),
            }
            for mark in self._site.marks(memory.state)
            if mark.at > looked - HOUR
        ]

    async def component(self, request: Request) -> Response:
        memory, name = self._site.component(request)
        minutes = view_data.last_minutes(view_data.chart(memory, [name], _COMPONENT_KEYS))
        shown = _shown_component(self._site, memory, name)
        return self._site.page("component.html", **shown.values, minutes=minutes)

    async def component_stream(self, request: Request) -> Response:
        memory, name = self._site.component(request)

        def piece() -> tuple[str, Any] | None:
            if memory.state.component(name) is None:
                return None
            html = self._site.render(
                "_component.html", **_shown_component(self._site, memory, name).values, minutes=None
            )
            return html, {"point": _last(view_data.chart(memory, [name], _COMPONENT_KEYS))}

        return stream(self._site.collector, piece)

    async def component_history(self, request: Request) -> Response:
        memory, name = self._site.component(request)
        columns = view_data.chart(memory, [name], _COMPONENT_KEYS)
        return json({**columns, "marks": self._marks(memory)})


def _last(columns: dict[str, list[float | None]]) -> dict[str, float | None]:
    return {key: values[-1] for key, values in columns.items() if values and key != "ago"}
