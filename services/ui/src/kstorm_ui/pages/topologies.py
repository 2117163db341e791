"""The start page, with all topologies."""

from collections.abc import Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.stream import stream
from kstorm_ui.topology_state import TopologyState


class TopologyRow(msgspec.Struct, frozen=True):
    name: str
    place: str
    word: str
    """Health, as in the status line."""
    level: str
    """`good`, `warn` or `bad`."""
    state: str
    """`active`, `deactivated`, or `not found any more`."""
    processes: int
    """Number of processes that should run."""
    ready: int
    troubled: bool
    """True if a process is not ready."""
    completed: float
    """Trees per second."""
    p99: float | None
    """Seconds, over the last seconds."""
    lag: int | None
    """Messages of the sources that are not done."""
    letters: int | None
    """Dead letters. None if not known."""
    failed: float
    pending: int


class TopologiesShown(msgspec.Struct, frozen=True):
    """All topologies that the web UI has seen."""

    source: str
    problem: str
    """Reason why the last poll failed, or ""."""
    topologies: Sequence[TopologyRow]


def routes(site: Site) -> list[Route]:
    """Return the start page, the stream that updates it, and its JSON."""
    make = partial(_topologies, site)

    async def topologies(request: Request) -> Response:
        return site.page("topologies.html", **_shown(site).values)

    async def topologies_stream(request: Request) -> Response:
        return stream(
            site.collector, lambda: (site.render("_topologies.html", **_shown(site).values), {})
        )

    return [
        Route("/", topologies),
        Route("/stream", topologies_stream),
        site.api("/topologies", make),
    ]


async def _topologies(site: Site, request: Request) -> PageResult:
    return _shown(site)


def _shown(site: Site) -> PageResult:
    rows = [_row(site, memory.state) for _, memory in sorted(site.collector.memories.items())]
    return PageResult(TopologiesShown(str(site.collector.source), site.collector.problem, rows))


def _row(site: Site, state: TopologyState) -> TopologyRow:
    line = site.status_of(state)
    spouts = [each for each in state.components if each.kind == "spout"]
    return TopologyRow(
        name=state.name,
        place=state.place,
        word=line.word,
        level=line.level,
        p99=line.p99,
        lag=line.lag,
        letters=line.counts.letters,
        state="not found any more"
        if not state.answered
        else "active"
        if state.active
        else "deactivated",
        processes=sum(each.processes for each in state.components),
        ready=sum(each.ready for each in state.components),
        troubled=bool(state.troubles),
        completed=sum(each.ack_rate for each in spouts),
        failed=sum(each.fail_rate for each in spouts),
        pending=sum(each.pending for each in spouts),
    )
