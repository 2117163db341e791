"""Page with the outcomes of a topology's messages, by partition."""

from functools import partial

from starlette.requests import Request
from starlette.routing import Route

from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.offset_outcomes import Accounted, accounted


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/audit", "audit.html", partial(_audit, site))


async def _audit(site: Site, request: Request) -> PageResult:
    state = site.memory(request).state
    answer, problem = await site.ask_kafka("finished", state, accounted)
    return PageResult(answer or Accounted([], 0), problem, state)
