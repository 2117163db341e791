"""Pages of the actions on a topology. Each explains its action and has a form that runs it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kstorm.errors import ConfigError, ControlError
from kstorm_ui import page_formatting
from kstorm_ui.action_forms import RequestedAction, requested_action
from kstorm_ui.forms import fields_of
from kstorm_ui.preview import Preview, preview
from kstorm_ui.site import Site
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import ACTIONS

_MOST_BYTES: Final = 3_200_000
"""A value of 1 MB, with each byte URL-encoded as three."""
_PATIENCE_SECS: Final = 2.0
"""Most actions are finished after this time, so the page that the browser is redirected to shows
the result."""

WhoAsks = Callable[[Request], str]


def routes(site: Site, who: WhoAsks) -> list[Route]:
    """Return a page for each action."""
    pages = _ActionPages(site, who)
    return [
        Route("/t/{topology}/do/{verb}", pages.show, methods=["GET"]),
        Route("/t/{topology}/do/{verb}", pages.do, methods=["POST"]),
    ]


class _ActionPages:
    def __init__(self, site: Site, who: WhoAsks) -> None:
        self._site, self._who = site, who

    async def show(self, request: Request) -> Response:
        state, verb = self._site.memory(request).state, request.path_params["verb"]
        return self._refusal(state, verb) or await self._page(state, verb, request.query_params)

    async def do(self, request: Request) -> Response:
        state, verb = self._site.memory(request).state, request.path_params["verb"]
        if refusal := self._refusal(state, verb):
            return refusal
        fields: Mapping[str, str] = {}
        try:
            fields = await fields_of(request, _MOST_BYTES)
            wanted = requested_action(self._site, state, verb, fields, self._who(request))
            action = self._site.background.start(
                state.name, verb, wanted.what, self._who(request), wanted.act
            )
        except (ConfigError, ControlError) as error:
            return await self._page(
                state, verb, fields, str(error), 400 if isinstance(error, ConfigError) else 409
            )
        await asyncio.to_thread(action.over.wait, _PATIENCE_SECS)
        return RedirectResponse(_back(state, wanted), 303)

    def _refusal(self, state: TopologyState, verb: str) -> Response | None:
        if verb not in ACTIONS:
            raise HTTPException(404)
        if verb in self._site.actions:
            return None
        here = verb == "scale" and self._site.cluster is None
        why = (
            "scaling needs Kubernetes, and the web UI shows topologies of this machine"
            if here
            else f"KSTORM_UI_ACTIONS does not include {verb}"
        )
        return self._site.page("refused.html", 403, state=state, verb=verb, why=why)

    async def _page(
        self,
        state: TopologyState,
        verb: str,
        fields: Mapping[str, str],
        wrong: str = "",
        status: int = 200,
    ) -> Response:
        try:
            shown = await preview(self._site, state, verb, fields)
        except (ConfigError, ControlError) as error:
            shown, status = Preview(problem=str(error)), 400 if status == 200 else status
        return self._site.page(
            "do.html", status, state=state, verb=verb, fields=fields, shown=shown, wrong=wrong
        )


def _back(state: TopologyState, done: RequestedAction) -> str:
    if done.selected is None:
        return f"{page_formatting.path('t', state.name)}#background-actions"  # the list is far down the page
    if done.selected.number is None:
        return page_formatting.path("t", state.name, "letters")
    return page_formatting.path("t", state.name, "letters", done.selected.number)
