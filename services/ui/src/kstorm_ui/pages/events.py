"""Who did what to a topology."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.events import Event
from kstorm_ui.showing import outcome_text
from kstorm_ui.site import Site
from kstorm_ui.sources.letters import events_of

_MOST_SHOWN: Final = 500


def routes(site: Site) -> list[Route]:
    """One page."""

    async def events(request: Request) -> Response:
        state, query = site.memory(request).state, request.query_params
        verb, text = query.get("verb", ""), query.get("text", "")
        answer, problem = await site.ask_kafka("events", state, events_of)
        found: Sequence[Event] = answer or ()
        chosen = [event for event in found if verb in ("", event.verb) and _has(event, text)]
        return site.page(
            "events.html",
            state=state,
            problem=problem,
            verbs=sorted({event.verb for event in found}),
            verb=verb,
            text=text,
            count=len(chosen),
            events=chosen[:_MOST_SHOWN],
        )

    return [Route("/t/{topology}/events", events)]


def _has(event: Event, text: str) -> bool:
    """A text is looked for in what is shown of it: else what is hidden could be tried letter by letter."""
    shown = (event.who, event.verb, event.what, event.note, outcome_text(event.outcome))
    return text.casefold() in "\n".join(shown).casefold()
