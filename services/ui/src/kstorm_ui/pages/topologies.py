"""All topologies."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.site import Site
from kstorm_ui.stream import stream


def routes(site: Site) -> list[Route]:
    """The first page, and what keeps it live."""

    async def topologies(request: Request) -> Response:
        return site.page("topologies.html", **_all(site))

    async def topologies_stream(request: Request) -> Response:
        return stream(site.collector, lambda: (site.render("_topologies.html", **_all(site)), {}))

    return [Route("/", topologies), Route("/stream", topologies_stream)]


def _all(site: Site) -> dict[str, Any]:
    states = [memory.state for _, memory in sorted(site.collector.memories.items())]
    return {"states": states, "source": str(site.collector.source), "problem": site.collector.problem}
