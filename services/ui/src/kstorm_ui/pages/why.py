"""Page with the reasons why messages are unfinished."""

from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kstorm.errors import ConfigError
from kstorm.introspection.outline import Outline
from kstorm.operations.traces.topology_traces import parse_message
from kstorm.runtime.base.settings import Settings
from kstorm_ui import page_formatting
from kstorm_ui.query_cache import QueryProblem
from kstorm_ui.site import API, NOT_TOLD, Site, json, no_outline
from kstorm_ui.sources.messages import OldestAnswer, oldest_of
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of


def routes(site: Site) -> list[Route]:
    """Return the page and its JSON. `?message=TOPIC/PARTITION/OFFSET` redirects to that message."""

    async def why(request: Request) -> Response:
        state, asked = site.memory(request).state, request.query_params.get("message", "").strip()
        page = partial(site.page, state=state, asked=asked)
        if not asked:
            found, problem = await _answer(site, state)
            return page("why.html", problem.status, found=found, problem=problem, wrong="")
        try:
            return RedirectResponse(
                page_formatting.path("t", state.name, "m", *parse_message(asked)), 303
            )
        except ConfigError as error:
            return page("why.html", 400, found=None, problem="", wrong=str(error))

    async def why_json(request: Request) -> Response:
        found, problem = await _answer(site, site.memory(request).state)
        if found is None:
            return json({"error": str(problem)}, problem.status)
        return json({"verdicts": found.verdicts, "all_read": found.all})

    return [Route("/t/{topology}/why", why), Route(f"{API}/t/{{topology}}/why", why_json)]


async def _answer(site: Site, state: TopologyState) -> tuple[OldestAnswer | None, QueryProblem]:
    """Return the oldest unfinished messages, and the problem if they are not known."""
    try:
        settings, outline = topics_of(state)
    except ConfigError as error:
        return None, QueryProblem(str(error))
    ask = partial(oldest_of, settings, outline, values=site.show_values)
    return await site.read.answer(("oldest", state.name), ask)


def topics_of(state: TopologyState) -> tuple[Settings, Outline]:
    """Return the settings and outline needed to read a topology's topics. Raises `ConfigError` if
    they are not known."""
    settings = settings_of(state.bootstrap, state.zookeeper)
    if settings is None:
        raise ConfigError(NOT_TOLD)
    if state.outline is None:
        raise ConfigError(no_outline(state.name))
    return settings, state.outline
