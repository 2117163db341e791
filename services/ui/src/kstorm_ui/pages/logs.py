"""Pages with log lines: of one process, and of all processes of a topology by time."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.errors import KstormError
from kstorm_ui.query_cache import KEPT_SECS, QueryProblem
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.log_lines import LEVELS, LogFilter, LogLine, parsed
from kstorm_ui.sources.process_logs import LogLife
from kstorm_ui.sources.report import ReportSource
from kstorm_ui.stream import growing
from kstorm_ui.topology_state import TopologyState

FOLLOWED_SECS: Final = 3600.0
"""Longest time for which a page follows a log."""
_FRESH_SECS: Final = 1.0
_FORBIDDEN: Final = 403
_MOST_LINES: Final = 1_000
"""Newest lines of all processes that a page shows."""
_MOST_PROCESSES: Final = 64
_HIDDEN: Final = QueryProblem(
    "Logs are not shown: to show them, set KSTORM_UI_LOGS=true, or ui.logs in the chart", _FORBIDDEN
)


class LogShown(msgspec.Struct, frozen=True):
    """Log of one process."""

    component: str
    process: str
    processes: Sequence[str]
    """Names of all processes of the component."""
    lives: Sequence[LogLife]
    """The current or last run first, then the one before it."""


class LogsShown(msgspec.Struct, frozen=True):
    """Logs of all processes."""

    wanted: LogFilter
    lines: Sequence[LogLine]
    """The newest matching lines, in order of time."""
    count: int
    """Number of matching lines."""
    unread: Sequence[str]
    """Processes whose logs could not be read, with the reason."""


def routes(site: Site) -> list[Route]:
    pages = _LogPages(site)
    one = "/t/{topology}/c/{component}/logs/{process}"
    return [
        Route(one, pages.log),
        Route(f"{one}/stream", pages.log_stream),
        site.api(one, partial(_log, site)),
        *site.both("/t/{topology}/logs", "logs.html", partial(_logs, site)),
    ]


class _LogPages:
    """The endpoints for browsers."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def log(self, request: Request) -> Response:
        shown = await _log(self._site, request)
        follow = request.query_params.get("follow") == "1"
        page = partial(self._site.page, "log.html", shown.problem.status, follow=follow)
        return page(**shown.values, **_lines_of(shown, request), query=str(request.url.query))

    async def log_stream(self, request: Request) -> Response:
        """Send the lines after each poll while a viewer follows the log."""

        async def look(is_last: bool) -> tuple[str, bool]:
            shown = await _log(self._site, request, _FRESH_SECS)
            values = {**shown.values, **_lines_of(shown, request)}
            over = is_last or shown.problem.status == _FORBIDDEN
            return self._site.render("_log_lines.html", **values), over

        return growing(self._site.collector, look, FOLLOWED_SECS)


def _lines_of(shown: PageResult, request: Request) -> Mapping[str, Any]:
    """Return the filter and the parsed lines of each run."""
    data = shown.data
    assert isinstance(data, LogShown)
    wanted = _filter(request)
    runs = [wanted.of(parsed(life.lines, data.process)) for life in data.lives]
    return {"wanted": wanted, "runs": runs, "levels": LEVELS}


async def _log(site: Site, request: Request, kept: float = KEPT_SECS) -> PageResult:
    memory, component = site.component(request)
    state, process = memory.state, request.path_params["process"]
    names = [each.name for each in state.processes.get(component, ())]
    if process not in names:
        raise HTTPException(404)
    problem = _HIDDEN
    lives: Sequence[LogLife] | None = None
    if site.show_logs:
        ask = partial(site.collector.source.log, state.name, process)
        lives, problem = await site.queries.answer(("log", state.name, process), ask, kept)
    return PageResult(LogShown(component, process, names, lives or ()), problem, state)


async def _logs(site: Site, request: Request) -> PageResult:
    state, wanted = site.memory(request).state, _filter(request)
    if not site.show_logs:
        return PageResult(LogsShown(wanted, [], 0, []), _HIDDEN, state)
    ask = partial(_all_lines, site.collector.source, state)
    answer, problem = await site.queries.answer(("logs", state.name), ask)
    lines, unread = answer or ([], [])
    chosen = wanted.of(lines)
    return PageResult(LogsShown(wanted, chosen[-_MOST_LINES:], len(chosen), unread), problem, state)


def _all_lines(source: ReportSource, state: TopologyState) -> tuple[list[LogLine], list[str]]:
    names = [each.name for some in state.processes.values() for each in some]
    lines: list[LogLine] = []
    unread = [f"{name}: too many processes" for name in names[_MOST_PROCESSES:]]
    for name in names[:_MOST_PROCESSES]:
        try:
            for life in reversed(source.log(state.name, name)):
                lines += parsed(life.lines, name)
        except KstormError as error:
            unread.append(f"{name}: {error}")
    return sorted(lines, key=lambda line: line.at or 0.0), unread


def _filter(request: Request) -> LogFilter:
    query = request.query_params
    level, at = query.get("level", ""), query.get("at", "")
    return LogFilter(
        level if level in LEVELS else "",
        query.get("text", "")[:500],
        int(at) if at.isascii() and at.isdigit() and len(at) < 12 else None,
    )
