"""Page with the last log lines of a process."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from kstorm_ui.query_cache import QueryProblem
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.logs import LogLife

_FORBIDDEN: Final = 403


class LogShown(msgspec.Struct, frozen=True):
    """Log of one process."""

    component: str
    process: str
    processes: Sequence[str]
    """Names of all processes of the component."""
    lives: Sequence[LogLife]
    """The current or last run first, then the one before it."""


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/c/{component}/logs/{process}", "log.html", partial(_log, site))


async def _log(site: Site, request: Request) -> PageResult:
    memory, component = site.component(request)
    state, process = memory.state, request.path_params["process"]
    names = [each.name for each in state.processes.get(component, ())]
    if process not in names:
        raise HTTPException(404)
    problem = QueryProblem(
        "Logs are not shown: to show them, set KSTORM_UI_LOGS=true, or ui.logs in the chart",
        _FORBIDDEN,
    )
    lives: Sequence[LogLife] | None = None
    if site.show_logs:
        ask = partial(site.collector.source.log, state.name, process)
        lives, problem = await site.asked.answer(("log", state.name, process), ask)
    return PageResult(LogShown(component, process, names, lives or ()), problem, state)
