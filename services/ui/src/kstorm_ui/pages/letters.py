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
from kstorm_ui import page_redaction
from kstorm_ui.page_redaction import LetterFilter, ShownGroup, ShownLetter
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.newest_letters import FoundLetters, events_of, letters_of

PAGE: Final = 50
"""Dead letters per page."""


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
    """The matching ones of this page, newest first."""
    page: int
    """Number of this page, from 1."""
    pages: int
    values: bool
    """True if message contents are shown."""


class LetterShown(msgspec.Struct, frozen=True):
    """One dead letter."""

    number: int
    letter: ShownLetter | None
    facts: Sequence[tuple[str, str]]
    contents: Sequence[tuple[str, str]]
    """Key, value, headers and error text, if values are shown."""
    values: bool
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
    chosen = wanted.of(found.letters)[::-1]
    pages = max(1, -(-len(chosen) // PAGE))
    number = min(pages, max(1, _number(request.query_params.get("page", ""))))
    data = LettersShown(
        all=len(found.letters),
        older=found.older,
        kinds=sorted({kind_of(one.letter) for one in found.letters} - {""}),
        components=sorted({component_of(one.letter) for one in found.letters}),
        wanted=wanted,
        count=len(chosen),
        groups=page_redaction.grouped(chosen, now_ms()),
        letters=[
            page_redaction.shown_letter(state.name, one)
            for one in chosen[(number - 1) * PAGE : number * PAGE]
        ],
        page=number,
        pages=pages,
        values=site.show_values,
    )
    return PageResult(data, problem, state)


async def _letter(site: Site, request: Request) -> PageResult:
    state, number = site.memory(request).state, request.path_params["number"]
    one, problem = await site.ask_kafka(("letter", number), state, partial(read_one, number=number))
    events, untold = await site.ask_kafka("events", state, events_of)
    place = place_of(one.letter) if one is not None and page_redaction.has_coordinates(one) else ""
    data = LetterShown(
        number=number,
        letter=None if one is None else page_redaction.shown_letter(state.name, one),
        facts=[] if one is None else list(page_redaction.facts(one)),
        contents=list(page_redaction.contents(one)) if one is not None and site.show_values else [],
        values=site.show_values,
        history=list(
            map(page_redaction.shown_event, page_redaction.about(events or (), number, place))
        ),
        untold=str(untold),
    )
    return PageResult(data, problem, state)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
