"""Objects shared by all pages: the collector's memory, the on-demand queries, and the templates."""

from collections.abc import Callable, Set
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from kstorm.printable import printable
from kstorm.runtime.base.settings import Settings
from kstorm_ui import available_actions, page_formatting, page_redaction, view_data
from kstorm_ui.background_actions import BackgroundActions
from kstorm_ui.collector import Collector
from kstorm_ui.desk_counts import DeskReader
from kstorm_ui.graph_data import graph
from kstorm_ui.letter_selection import SelectedLetters
from kstorm_ui.query_cache import QueryCache, QueryProblem
from kstorm_ui.responses import Make
from kstorm_ui.sources import messages
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.status_line import StatusLine, status_line
from kstorm_ui.time_windows import WINDOWS
from kstorm_ui.timeline import TimelineMark, marks_of
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of

HERE: Final = Path(__file__).parent
API: Final = "/api/v1"
NOT_TOLD: Final = (
    "The web UI does not know Kafka's address: set KSTORM_BOOTSTRAP_SERVERS. "
    "For a release on Kubernetes, use the release's own web UI (ui.enabled)"
)


def no_outline(topology: str) -> str:
    """Return the problem of a topology whose outline is not known."""
    return (
        f"No process of {topology} has reported yet what the topology declares: "
        "wait until one is ready"
    )


class Site:
    """Passed to every module of `kstorm_ui.pages`, whose `routes` returns its endpoints."""

    def __init__(
        self,
        collector: Collector,
        show_values: bool = False,
        actions: Set[str] = frozenset(),
        *,
        show_logs: bool = False,
    ) -> None:
        self.collector, self.show_values, self.show_logs = collector, show_values, show_logs
        self.cluster = (
            collector.source.cluster if isinstance(collector.source, KubernetesSource) else None
        )
        self.actions = actions if self.cluster is not None else actions - {"scale"}
        """The allowed actions that are possible in this environment."""
        self.background = BackgroundActions(self._changed)
        self.desk = DeskReader()
        self.queries = QueryCache(4)
        # Each query uses a core for seconds, and up to 64 MB of prefetched records.
        self.read = QueryCache(2)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=page_formatting.shown,
        )
        self._templates.globals |= {
            "actions": self.actions,
            "background": self.background,
            "graph_of": graph,
            "limits": messages,
            "SelectedLetters": SelectedLetters,
            "available": available_actions,
            "show_logs": show_logs,
            "redaction": page_redaction,
            "status_of": self.status_of,
            "texts": page_formatting,
            "unit": "processes" if self.cluster is None else "pods",
            "views": view_data,
            "windows": WINDOWS,
        }

    def _changed(self) -> None:
        self.queries.forget()
        self.desk.forget()

    def close(self) -> None:
        """Let no request wait any longer, because the web UI shuts down."""
        self.queries.close()
        self.read.close()
        self.desk.close()

    def marks(self, state: TopologyState) -> list[TimelineMark]:
        """Return the marks of a topology's timeline, oldest first."""
        memory = self.collector.memories.get(state.name)
        seen = memory.timeline.marks if memory is not None else ()
        told = marks_of(self.desk.counts(state).events)
        return sorted([*seen, *told], key=lambda mark: mark.at)

    def status_of(self, state: TopologyState) -> StatusLine:
        memory = self.collector.memories.get(state.name)
        p99 = None if memory is None else view_data.newest_p99(memory)
        return status_line(state, self.desk.counts(state), self.marks(state), p99)

    def memory(self, request: Request) -> TopologyMemory:
        """Return the memory of the topology in the path. Raises `HTTPException` 404 if it was never
        seen."""
        memory = self.collector.memories.get(request.path_params["topology"])
        if memory is None:
            raise HTTPException(404)
        return memory

    def component(self, request: Request) -> tuple[TopologyMemory, str]:
        """Return the memory of the topology in the path, and the component's id.

        Raises `HTTPException` 404 if either does not exist.
        """
        memory, name = self.memory(request), request.path_params["component"]
        if memory.state.component(name) is None:
            raise HTTPException(404)
        return memory, name

    async def ask_kafka(
        self, name: object, state: TopologyState, ask: Callable[[Settings, str], Any]
    ) -> tuple[Any, QueryProblem]:
        """Query the topology's Kafka, cached by `name` as in `QueryCache`. Return the answer and the
        problem."""
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None:
            return None, QueryProblem(NOT_TOLD)
        return await self.queries.answer((name, state.name), partial(ask, settings, state.name))

    def both(self, path: str, template: str, make: Make) -> list[Route]:
        """Return the routes of a page and its JSON."""

        async def page(request: Request) -> Response:
            shown = await make(request)
            return self.page(template, shown.problem.status, **shown.values)

        return [Route(path, page), self.api(path, make)]

    def api(self, path: str, make: Make) -> Route:
        """Return the route of a page's JSON."""

        async def answer(request: Request) -> Response:
            shown = await make(request)
            return (
                json({"error": str(shown.problem)}, shown.problem.status)
                if shown.problem
                else json(shown.data)
            )

        return Route(f"{API}{path}", answer)

    def render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(self.render(template, **values), status)


def json(value: Any, status: int = 200) -> Response:
    """Return a JSON response.

    Values without a JSON type are written as Python's `repr`. Characters that a terminal interprets
    are escaped.
    """
    text = printable(msgspec.json.encode(value, enc_hook=repr).decode())
    return Response(text, status, media_type="application/json")
