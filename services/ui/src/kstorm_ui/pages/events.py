"""Page with the operators' actions on a topology, and what its processes did."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm.events import Event
from kstorm_ui.page_redaction import shown_event
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.newest_letters import events_of
from kstorm_ui.timeline import TimelineMark

_MOST_SHOWN: Final = 500


class EventsShown(msgspec.Struct, frozen=True):
    """Events matching the filter."""

    verbs: Sequence[str]
    verb: str
    text: str
    count: int
    events: Sequence[Event]
    """The newest events, newest first."""
    seen: Sequence[TimelineMark]
    """Changes of processes that the web UI has seen, newest first."""


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/events", "events.html", partial(_events, site))


async def _events(site: Site, request: Request) -> PageResult:
    state, query = site.memory(request).state, request.query_params
    verb, text = query.get("verb", ""), query.get("text", "")
    answer, problem = await site.ask_kafka("events", state, events_of)
    found: Sequence[Event] = answer or ()
    chosen = [
        each for each in map(shown_event, found) if verb in ("", each.verb) and _has(each, text)
    ]
    verbs = sorted({event.verb for event in found})
    seen = list(site.memory(request).timeline.marks)[::-1]
    return PageResult(
        EventsShown(verbs, verb, text, len(chosen), chosen[:_MOST_SHOWN], seen), problem, state
    )


def _has(shown: Event, text: str) -> bool:
    """Search for a text in the displayed fields only. Otherwise a user could guess hidden data
    letter by letter."""
    return (
        text.casefold()
        in "\n".join((shown.who, shown.verb, shown.what, shown.note, shown.outcome)).casefold()
    )
