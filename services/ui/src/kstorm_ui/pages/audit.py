"""What became of a topology's messages, by partition."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.site import Site
from kstorm_ui.sources.finished import Accounted, accounted


def routes(site: Site) -> list[Route]:
    """One page."""

    async def audit(request: Request) -> Response:
        state = site.memory(request).state
        answer, problem = await site.ask_kafka("finished", state, accounted)
        return site.page("audit.html", state=state, problem=problem, found=answer or Accounted([], 0))

    return [Route("/t/{topology}/audit", audit)]
