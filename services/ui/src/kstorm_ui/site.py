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

from kstorm.runtime.service.settings import Settings
from kstorm_ui import offers, showing, texts, views
from kstorm_ui.asked import Asked
from kstorm_ui.collector import Collector
from kstorm_ui.deeds import Deeds
from kstorm_ui.memory import Memory
from kstorm_ui.settings import settings_of
from kstorm_ui.sources import messages
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.state import TopologyState
from kstorm_ui.windows import WINDOWS

NO_KAFKA: Final = "This page was not told where Kafka is: set KSTORM_BOOTSTRAP_SERVERS"
HERE: Final = Path(__file__).parent


class Site:
    """Given to every module of `kstorm_ui.pages`, which adds its endpoints by a function `routes`."""

    def __init__(self, collector: Collector, show_values: bool = False, actions: Set[str] = frozenset()) -> None:
        self.collector, self.show_values = collector, show_values
        self.cluster = collector.source.cluster if isinstance(collector.source, KubernetesSource) else None
        self.actions = actions if self.cluster is not None else actions - {"scale"}
        """Those that this page does: of what it may, what can be done here."""
        self.deeds = Deeds(self._changed)
        self.asked = Asked(4)
        self.read = Asked(2)  # as each takes a core for seconds, and up to 64 MB for what was fetched ahead
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
            "offers": offers,
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
    ) -> tuple[Any, str]:
        """What the topology's Kafka answers, under a name as `Asked` has it, and why there is no answer: empty if there is one."""
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None:
            return None, NO_KAFKA
        return await self.asked.answer((name, state.name), partial(ask, settings, state.name))

    def render(self, template: str, **values: Any) -> str:
        """A template's text."""
        return self._templates.get_template(template).render(**values)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A template as an answer."""
        return HTMLResponse(self.render(template, **values), status)


def json(value: Any, status: int = 200) -> Response:
    """A value as an answer in JSON; what JSON has not as Python writes it."""
    return Response(msgspec.json.encode(value, enc_hook=repr), status, media_type="application/json")
