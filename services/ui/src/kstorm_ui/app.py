"""The web application: routes to pages, each made of the collector's memory and a template. Nothing here waits for a source."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from kstorm_ui import texts, views
from kstorm_ui.asked import Asked
from kstorm_ui.collector import Collector
from kstorm_ui.memory import Memory
from kstorm_ui.security import COOKIE, Guard, given_token, ticket
from kstorm_ui.settings import settings_of
from kstorm_ui.sources.letters import letters_of
from kstorm_ui.sources.partitions import partitions_of
from kstorm_ui.state import ComponentState, TopologyState
from kstorm_ui.stream import stream
from kstorm_ui.windows import WINDOWS, window

_HERE: Final = Path(__file__).parent
_TOPOLOGY_KEYS: Final = ("acked", "failed")
_COMPONENT_KEYS: Final = ("emitted", "executed", "failed")


def make_app(collector: Collector, token: str = "", user_header: str = "") -> ASGIApp:
    """The application, which runs the collector as long as it runs itself."""
    pages = _Pages(collector, token)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(collector.run())
        yield
        await collector.stop()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    routes = [
        Route("/", pages.topologies),
        Route("/stream", pages.topologies_stream),
        Route("/login", pages.login, methods=["GET", "POST"]),
        Route("/livez", pages.livez),
        Route("/t/{topology}", pages.topology),
        Route("/t/{topology}/stream", pages.topology_stream),
        Route("/t/{topology}/history", pages.topology_history),
        Route("/t/{topology}/sources", pages.sources),
        Route("/t/{topology}/letters", pages.letters),
        Route("/t/{topology}/why", pages.why),
        Route("/t/{topology}/c/{component}", pages.component),
        Route("/t/{topology}/c/{component}/stream", pages.component_stream),
        Route("/t/{topology}/c/{component}/history", pages.component_history),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    errors: Any = {404: pages.not_found}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors), token, user_header)


class _Pages:
    """The endpoints."""

    def __init__(self, collector: Collector, token: str) -> None:
        self._collector, self._token = collector, token
        self._asked = Asked()
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=texts.shown,
        )
        self._templates.globals |= {"texts": texts, "views": views, "windows": WINDOWS}

    async def livez(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def login(self, request: Request) -> Response:
        if not self._token:
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return self._page("login.html", wrong=False)
        if ticket(await given_token(request)) != ticket(self._token):
            return self._page("login.html", 401, wrong=True)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, ticket(self._token), httponly=True, samesite="strict", secure=secure)
        return answer

    async def not_found(self, request: Request, error: HTTPException) -> Response:
        return self._page("not_found.html", 404)

    async def topologies(self, request: Request) -> Response:
        return self._page("topologies.html", **self._all())

    async def topologies_stream(self, request: Request) -> Response:
        return stream(self._collector, lambda: (self._render("_topologies.html", **self._all()), {}))

    async def topology(self, request: Request) -> Response:
        memory, key = self._memory(request), request.query_params.get("window", "600")
        columns = views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS)
        return self._page("topology.html", **self._of_topology(memory, key), minutes=views.last_minutes(columns))

    async def topology_stream(self, request: Request) -> Response:
        memory, key = self._memory(request), request.query_params.get("window", "600")

        def piece() -> tuple[str, Any]:
            html = self._render("_components.html", **self._of_topology(memory, key))
            points = views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS)
            return html, {**views.graph(memory.state), "point": _last(points)}

        return stream(self._collector, piece)

    async def topology_history(self, request: Request) -> Response:
        memory = self._memory(request)
        return _json(views.chart(memory, views.spouts(memory.state), _TOPOLOGY_KEYS))

    async def component(self, request: Request) -> Response:
        memory, name = self._component(request)
        columns = views.chart(memory, [name], _COMPONENT_KEYS)
        return self._page("component.html", **self._of_component(memory, name), minutes=views.last_minutes(columns))

    async def component_stream(self, request: Request) -> Response:
        memory, name = self._component(request)

        def piece() -> tuple[str, Any] | None:
            if memory.state.component(name) is None:
                return None
            html = self._render("_processes.html", **self._of_component(memory, name))
            return html, {"point": _last(views.chart(memory, [name], _COMPONENT_KEYS))}

        return stream(self._collector, piece)

    async def component_history(self, request: Request) -> Response:
        memory, name = self._component(request)
        return _json(views.chart(memory, [name], _COMPONENT_KEYS))

    async def sources(self, request: Request) -> Response:
        state = self._memory(request).state
        asking = [self._partitions(state, each) for each in state.components if each.kind == "spout"]
        return self._page("sources.html", state=state, found=await asyncio.gather(*asking))

    async def _partitions(self, state: TopologyState, spout: ComponentState) -> tuple[ComponentState, Any, str]:
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None or not spout.offsets:
            return spout, (), ""
        ask = partial(partitions_of, settings, state.name, spout.topic, spout.offsets)
        return spout, *await self._asked.answer(("partitions", state.name, spout.component), ask)

    async def letters(self, request: Request) -> Response:
        state = self._memory(request).state
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None:
            found, problem = (), "This page was not told where Kafka is: set KSTORM_BOOTSTRAP_SERVERS"
        else:
            found, problem = await self._asked.answer(
                ("letters", state.name), partial(letters_of, settings, state.name)
            )
        return self._page("letters.html", state=state, letters=found, problem=problem)

    async def why(self, request: Request) -> Response:
        return self._page("why.html", state=self._memory(request).state)

    def _memory(self, request: Request) -> Memory:
        memory = self._collector.memories.get(request.path_params["topology"])
        if memory is None:
            raise HTTPException(404)
        return memory

    def _component(self, request: Request) -> tuple[Memory, str]:
        memory, name = self._memory(request), request.path_params["component"]
        if memory.state.component(name) is None:
            raise HTTPException(404)
        return memory, name

    def _all(self) -> dict[str, Any]:
        states = [memory.state for _, memory in sorted(self._collector.memories.items())]
        return {"states": states, "source": str(self._collector.source), "problem": self._collector.problem}

    def _of_topology(self, memory: Memory, key: str) -> dict[str, Any]:
        chosen = window(memory, key, monotonic())
        return {"state": memory.state, "window": chosen, "problem": self._collector.problem}

    def _of_component(self, memory: Memory, name: str) -> dict[str, Any]:
        state = memory.state
        tasks = state.tasks.get(name, ())
        return {
            "state": state,
            "component": state.component(name),
            "processes": state.processes.get(name, ()),
            "tasks": tasks,
            "skew": views.skew(tasks),
            "problem": self._collector.problem,
        }

    def _render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(self._render(template, **values), status)


def _last(columns: dict[str, list[float | None]]) -> dict[str, float | None]:
    return {key: values[-1] for key, values in columns.items() if values and key != "ago"}


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
