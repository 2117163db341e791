"""What all pages share: the collector's memory, what is asked only when somebody looks, and the templates."""

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
from kstorm.runtime.service.settings import Settings
from kstorm_ui import offers, showing, texts, views
from kstorm_ui.asked import Asked, Problem
from kstorm_ui.collector import Collector
from kstorm_ui.deeds import Deeds
from kstorm_ui.meant import Meant
from kstorm_ui.memory import Memory
from kstorm_ui.settings import settings_of
from kstorm_ui.shown import Make
from kstorm_ui.sources import messages
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.state import TopologyState
from kstorm_ui.windows import WINDOWS

HERE: Final = Path(__file__).parent
API: Final = "/api/v1"
NOT_TOLD: Final = (
    "This page was not told where Kafka is: set KSTORM_BOOTSTRAP_SERVERS, or, of a release on Kubernetes, use the page in it "
    "(ui.enabled)"
)


class Site:
    """Given to every module of `kstorm_ui.pages`, which adds its endpoints by a function `routes`."""

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
        """Those that this page does: of what it may, what can be done here."""
        self.deeds = Deeds(self._changed)
        self.asked = Asked(4)
        self.read = Asked(
            2
        )  # as each takes a core for seconds, and up to 64 MB for what was fetched ahead
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=texts.shown,
        )
        self._templates.globals |= {
            "actions": self.actions,
            "deeds": self.deeds,
            "limits": messages,
            "Meant": Meant,
            "offers": offers,
            "show_logs": show_logs,
            "showing": showing,
            "texts": texts,
            "views": views,
            "windows": WINDOWS,
        }

    def _changed(self) -> None:
        self.asked.forget()

    def memory(self, request: Request) -> Memory:
        """Of the topology in the path. Raises `HTTPException` 404 if none of that name was seen."""
        memory = self.collector.memories.get(request.path_params["topology"])
        if memory is None:
            raise HTTPException(404)
        return memory

    def component(self, request: Request) -> tuple[Memory, str]:
        """The memory of the topology in the path, and the component there. Raises `HTTPException` 404 if there is none."""
        memory, name = self.memory(request), request.path_params["component"]
        if memory.state.component(name) is None:
            raise HTTPException(404)
        return memory, name

    async def ask_kafka(
        self, name: object, state: TopologyState, ask: Callable[[Settings, str], Any]
    ) -> tuple[Any, Problem]:
        """What the topology's Kafka answers, under a name as `Asked` has it, and why there is no answer: empty if there is one."""
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None:
            return None, Problem(NOT_TOLD)
        return await self.asked.answer((name, state.name), partial(ask, settings, state.name))

    def both(self, path: str, template: str, make: Make) -> list[Route]:
        """A page, and the same as JSON."""

        async def page(request: Request) -> Response:
            shown = await make(request)
            return self.page(template, shown.problem.status, **shown.values)

        return [Route(path, page), self.api(path, make)]

    def api(self, path: str, make: Make) -> Route:
        """What a page shows, as JSON."""

        async def answer(request: Request) -> Response:
            shown = await make(request)
            return (
                json({"error": str(shown.problem)}, shown.problem.status)
                if shown.problem
                else json(shown.data)
            )

        return Route(f"{API}{path}", answer)

    def render(self, template: str, **values: Any) -> str:
        """A template's text."""
        return self._templates.get_template(template).render(**values)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A template as an answer."""
        return HTMLResponse(self.render(template, **values), status)


def json(value: Any, status: int = 200) -> Response:
    """A value as an answer in JSON; what JSON has not as Python writes it, and what a terminal obeys as JSON can."""
    text = printable(msgspec.json.encode(value, enc_hook=repr).decode())
    return Response(text, status, media_type="application/json")
