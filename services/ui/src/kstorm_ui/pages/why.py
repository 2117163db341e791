"""Why a message is not done."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.site import Site


def routes(site: Site) -> list[Route]:
    """One page."""

    async def why(request: Request) -> Response:
        return site.page("why.html", state=site.memory(request).state)

    return [Route("/t/{topology}/why", why)]
