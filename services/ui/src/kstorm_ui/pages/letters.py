"""The dead letters."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.settings import settings_of
from kstorm_ui.site import Site
from kstorm_ui.sources.letters import letters_of


def routes(site: Site) -> list[Route]:
    """One page."""

    async def letters(request: Request) -> Response:
        state = site.memory(request).state
        settings = settings_of(state.bootstrap, state.zookeeper)
        if settings is None:
            found, problem = (), "This page was not told where Kafka is: set KSTORM_BOOTSTRAP_SERVERS"
        else:
            ask = partial(letters_of, settings, state.name)
            found, problem = await site.asked.answer(("letters", state.name), ask)
        return site.page("letters.html", state=state, letters=found, problem=problem)

    return [Route("/t/{topology}/letters", letters)]
