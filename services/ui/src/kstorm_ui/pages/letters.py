"""Pages of the dead letters: groups of them, and each of them with its history."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm.cli.letters import now_ms, place_of, read_one
from kstorm.events import Event
from kstorm.inspect.letters import component_of, kind_of
from kstorm_ui import showing
from kstorm_ui.showing import ShownGroup, ShownLetter, Wanted
from kstorm_ui.shown import Shown
from kstorm_ui.site import Site
from kstorm_ui.sources.letters import Found, events_of, letters_of

_MOST_SHOWN: Final = 200


class LettersShown(msgspec.Struct, frozen=True):
    """The dead letters of a topology."""

    all: int
    """Number of dead letters read."""
    older: bool
    """True if older ones exist that were not read."""
    kinds: Sequence[str]
    components: Sequence[str]
    wanted: Wanted
    count: int
    """Number of dead letters that match the filter."""
    groups: Sequence[ShownGroup]
    letters: Sequence[ShownLetter]
    """The newest matching ones, newest first."""


class LetterShown(msgspec.Struct, frozen=True):
    """One dead letter."""

    number: int
    letter: ShownLetter | None
    facts: Sequence[tuple[str, str]]
    history: Sequence[Event]
    """Operator actions on it."""
    untold: str
    """Reason why the history is not known, or ""."""


def routes(site: Site) -> list[Route]:
    return [
        *site.both("/t/{topology}/letters", "letters.html", partial(_letters, site)),
        *site.both("/t/{topology}/letters/{number:int}", "letter.html", partial(_letter, site)),
    ]


async def _letters(site: Site, request: Request) -> Shown:
    state = site.memory(request).state
    wanted = Wanted(
        **{name: request.query_params.get(name, "") for name in Wanted.__struct_fields__}
    )
    answer, problem = await site.ask_kafka("letters", state, letters_of)
    found: Found = answer or Found([], False)
    chosen = wanted.of(found.letters)
    data = LettersShown(
        all=len(found.letters),
        older=found.older,
        kinds=sorted({kind_of(one.letter) for one in found.letters} - {""}),
        components=sorted({component_of(one.letter) for one in found.letters}),
        wanted=wanted,
        count=len(chosen),
        groups=showing.grouped(chosen, now_ms()),
        letters=[showing.shown_letter(state.name, one) for one in chosen[: -_MOST_SHOWN - 1 : -1]],
    )
    return Shown(data, problem, state)


async def _letter(site: Site, request: Request) -> Shown:
    state, number = site.memory(request).state, request.path_params["number"]
    one, problem = await site.ask_kafka(("letter", number), state, partial(read_one, number=number))
    events, untold = await site.ask_kafka("events", state, events_of)
    place = place_of(one.letter) if one is not None and showing.has_coordinates(one) else ""
    data = LetterShown(
        number=number,
        letter=None if one is None else showing.shown_letter(state.name, one),
        facts=[] if one is None else list(showing.facts(one)),
        history=list(map(showing.shown_event, showing.about(events or (), number, place))),
        untold=str(untold),
    )
    return Shown(data, problem, state)
