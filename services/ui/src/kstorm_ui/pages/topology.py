"""A topology, and a component of it."""

from time import monotonic
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui import views
from kstorm_ui.memory import Memory
from kstorm_ui.site import Site, json
from kstorm_ui.stream import stream
from kstorm_ui.windows import window

_TOPOLOGY_KEYS: Final = ("acked", "failed")
_COMPONENT_KEYS: Final = ("emitted", "executed", "failed")


def routes(site: Site) -> list[Route]:
    """Each with what keeps it live, and with the columns of its chart."""
    pages = _Pages(site)
    return [
        Route("/t/{topology}", pages.topology),
        Route("/t/{topology}/stream", pages.topology_stream),
        Route("/t/{topology}/history", pages.topology_history),
        Route("/t/{topology}/c/{component}", pages.component),
        Route("/t/{topology}/c/{component}/stream", pages.component_stream),
        Route("/t/{topology}/c/{component}/history", pages.component_history),
    ]


class _Pages:
    """The endpoints."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def topology(self, request: Request) -> Response:
        memory, key = self._site.memory(request), request.query_params.get("window", "600")
        columns = views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS)
        return self._site.page("topology.html", **self._of_topology(memory, key), minutes=views.last_minutes(columns))

    async def topology_stream(self, request: Request) -> Response:
        memory, key = self._site.memory(request), request.query_params.get("window", "600")

        def piece() -> tuple[str, Any]:
            html = self._site.render("_components.html", **self._of_topology(memory, key))
            points = views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS)
            return html, {**views.graph(memory.state), "point": _last(points)}

        return stream(self._site.collector, piece)

    async def topology_history(self, request: Request) -> Response:
        memory = self._site.memory(request)
        return json(views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS))

    async def component(self, request: Request) -> Response:
        memory, name = self._site.component(request)
        minutes = views.last_minutes(views.chart(memory, [name], _COMPONENT_KEYS))
        return self._site.page("component.html", **self._of_component(memory, name), minutes=minutes)

    async def component_stream(self, request: Request) -> Response:
        memory, name = self._site.component(request)

        def piece() -> tuple[str, Any] | None:
            if memory.state.component(name) is None:
                return None
            html = self._site.render("_processes.html", **self._of_component(memory, name))
            return html, {"point": _last(views.chart(memory, [name], _COMPONENT_KEYS))}

        return stream(self._site.collector, piece)

    async def component_history(self, request: Request) -> Response:
        memory, name = self._site.component(request)
        return json(views.chart(memory, [name], _COMPONENT_KEYS))

    def _of_topology(self, memory: Memory, key: str) -> dict[str, Any]:
        chosen = window(memory, key, monotonic())
        return {"state": memory.state, "window": chosen, "problem": self._site.collector.problem}

    def _of_component(self, memory: Memory, name: str) -> dict[str, Any]:
        state = memory.state
        tasks = state.tasks.get(name, ())
        return {
            "state": state,
            "component": state.component(name),
            "processes": state.processes.get(name, ()),
            "tasks": tasks,
            "skew": views.skew(tasks),
            "problem": self._site.collector.problem,
        }


def _last(columns: dict[str, list[float | None]]) -> dict[str, float | None]:
    return {key: values[-1] for key, values in columns.items() if values and key != "ago"}
