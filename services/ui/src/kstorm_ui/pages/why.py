"""Why messages are not done."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kstorm.cli.tracing import parse_message
from kstorm.errors import ConfigError
from kstorm.inspect.outline import Outline
from kstorm.runtime.service.settings import Settings
from kstorm_ui import texts
from kstorm_ui.settings import settings_of
from kstorm_ui.site import Site
from kstorm_ui.sources.messages import MOST_BYTES, MOST_SECS, oldest_of
from kstorm_ui.state import TopologyState


def routes(site: Site) -> list[Route]:
    """One page; `?message=TOPIC/PARTITION/OFFSET` leads to that message."""

    async def why(request: Request) -> Response:
        state, asked = site.memory(request).state, request.query_params.get("message", "").strip()
        values: dict[str, Any] = {"state": state, "asked": asked, "limits": (MOST_BYTES, MOST_SECS), "wrong": ""}
        if asked:
            try:
                return RedirectResponse(texts.path("t", state.name, "m", *parse_message(asked)), 303)
            except ConfigError as error:
                return site.page("why.html", 400, **values | {"wrong": str(error)}, found=None, problem="")
        try:
            settings, outline = topics_of(state)
        except ConfigError as error:
            return site.page("why.html", **values, found=None, problem=str(error))
        ask = partial(oldest_of, settings, outline, values=site.show_values)
        found, problem = await site.asked.answer(("oldest", state.name), ask)
        return site.page("why.html", **values, found=found, problem=problem)

    return [Route("/t/{topology}/why", why)]


def topics_of(state: TopologyState) -> tuple[Settings, Outline]:
    """What it takes to read the topics of a topology. Raises `ConfigError` if that is not known."""
    settings = settings_of(state.bootstrap, state.zookeeper)
    if settings is None:
        raise ConfigError("This page was not told where Kafka is: set KSTORM_BOOTSTRAP_SERVERS")
    if state.outline is None:
        raise ConfigError(f"No process of {state.name} has told yet what the topology declares")
    return settings, state.outline
