"""Pages of the dead letters: groups of them, and each of them with its history."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm.events import Event
from kstorm.operations.letters.reading import now_ms, place_of, read_one
from kstorm.operations.letters.selection import component_of, kind_of
from kstorm_ui import redaction
from kstorm_ui.redaction import LetterFilter, ShownGroup, ShownLetter
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.letters import FoundLetters, events_of, letters_of

_MOST_SHOWN: Final = 200


class LettersShown(msgspec.Struct, frozen=True):
    """The dead letters of a topology."""

    all: int
    """Number of dead letters read."""
    older: bool
    """True if older ones exist that were not read."""
    kinds: Sequence[str]
    components: Sequence[str]
    wanted: LetterFilter
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


async def _letters(site: Site, request: Request) -> PageResult:
    state = site.memory(request).state
    wanted = LetterFilter(
        **{name: request.query_params.get(name, "") for name in LetterFilter.__struct_fields__}
    )
    answer, problem = await site.ask_kafka("letters", state, letters_of)
    found: FoundLetters = answer or FoundLetters([], False)
    chosen = wanted.of(found.letters)
    data = LettersShown(
        all=len(found.letters),
        older=found.older,
        kinds=sorted({kind_of(one.letter) for one in found.letters} - {""}),
        components=sorted({component_of(one.letter) for one in found.letters}),
        wanted=wanted,
        count=len(chosen),
        groups=redaction.grouped(chosen, now_ms()),
        letters=[
            redaction.shown_letter(state.name, one) for one in chosen[: -_MOST_SHOWN - 1 : -1]
        ],
    )
    return PageResult(data, problem, state)


async def _letter(site: Site, request: Request) -> PageResult:
    state, number = site.memory(request).state, request.path_params["number"]
    one, problem = await site.ask_kafka(("letter", number), state, partial(read_one, number=number))
    events, untold = await site.ask_kafka("events", state, events_of)
    place = place_of(one.letter) if one is not None and redaction.has_coordinates(one) else ""
    data = LetterShown(
        number=number,
        letter=None if one is None else redaction.shown_letter(state.name, one),
        facts=[] if one is None else list(redaction.facts(one)),
        history=list(map(redaction.shown_event, redaction.about(events or (), number, place))),
        untold=str(untold),
    )
    return PageResult(data, problem, state)
