"""The dead letters: groups of them, and each of them with what was done to it."""

import time
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.cli.letters import place_of, read_one
from kstorm.inspect.letters import component_of, kind_of
from kstorm_ui import showing
from kstorm_ui.meant import Meant
from kstorm_ui.showing import Wanted
from kstorm_ui.site import Site
from kstorm_ui.sources.letters import Found, events_of, letters_of

_MOST_SHOWN: Final = 200


def routes(site: Site) -> list[Route]:
    """All letters, and one."""

    async def letters(request: Request) -> Response:
        state = site.memory(request).state
        wanted = Wanted(**{name: request.query_params.get(name, "") for name in Wanted.__struct_fields__})
        answer, problem = await site.ask_kafka("letters", state, letters_of)
        found: Found = answer or Found([], False)
        chosen = wanted.of(found.letters)
        return site.page(
            "letters.html",
            state=state,
            problem=problem,
            found=found,
            wanted=wanted,
            meant=Meant(wanted=wanted),
            kinds=sorted({kind_of(one.letter) for one in found.letters} - {""}),
            components=sorted({component_of(one.letter) for one in found.letters}),
            groups=showing.grouped(chosen, int(time.time() * 1000)),
            count=len(chosen),
            shown=chosen[: -_MOST_SHOWN - 1 : -1],
        )

    async def letter(request: Request) -> Response:
        state, number = site.memory(request).state, request.path_params["number"]
        one, problem = await site.ask_kafka(("letter", number), state, partial(read_one, number=number))
        events, untold = await site.ask_kafka("events", state, events_of)
        place = place_of(one.letter) if one is not None and showing.has_coordinates(one) else ""
        return site.page(
            "letter.html",
            200 if one is not None else 404,
            state=state,
            number=number,
            meant=Meant(number),
            one=one,
            facts=list(showing.facts(one)) if one is not None else [],
            problem=problem,
            history=showing.about(events or (), number, place),
            untold=untold,
        )

    return [Route("/t/{topology}/letters", letters), Route("/t/{topology}/letters/{number:int}", letter)]
