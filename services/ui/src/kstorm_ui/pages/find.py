"""The search box: an offset, a root, a dead letter, or a key of state."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kstorm.runtime.base.settings import Settings
from kstorm_ui.site import API, Site, json
from kstorm_ui.sources.local import LocalSource
from kstorm_ui.sources.partitions import PartitionState, partitions_of
from kstorm_ui.sources.search import SearchResult, keys_of, letter_of, offsets_of, results_by_form
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of

_LONGEST: Final = 500


class FindShown(msgspec.Struct, frozen=True):
    text: str
    found: Sequence[SearchResult]
    problems: Sequence[str]
    """Reasons why some places could not be searched."""
    keys: bool
    """True if keys of state were searched too, because values are shown."""


def routes(site: Site) -> list[Route]:
    """Return the page and its JSON. A text that can mean only one thing redirects to it."""

    async def find(request: Request) -> Response:
        state = site.memory(request).state
        shown = await _find(site, state, _text(request))
        if len(shown.found) == 1 and shown.found[0].value is None and not shown.problems:
            return RedirectResponse(shown.found[0].href, 303)
        return site.page("find.html", state=state, **msgspec.structs.asdict(shown))

    async def find_json(request: Request) -> Response:
        return json(await _find(site, site.memory(request).state, _text(request)))

    return [Route("/t/{topology}/find", find), Route(f"{API}/t/{{topology}}/find", find_json)]


def _text(request: Request) -> str:
    return request.query_params.get("q", "").strip()[:_LONGEST]


async def _find(site: Site, state: TopologyState, text: str) -> FindShown:
    found, problems = results_by_form(text, state) if text else [], []
    certain = any(each.kind in ("root", "message") for each in found)
    settings = settings_of(state.bootstrap, state.zookeeper)
    if text.isascii() and text.isdigit() and settings is not None:
        letters, problem = await site.ask_kafka(
            ("find letter", text), state, partial(letter_of, text=text)
        )
        found += letters or ()
        problems += [str(problem)] if problem else []
        offsets, unread = await _offsets(site, state, settings, text)
        found += offsets
        problems += [unread] if unread else []
    if text and site.show_values and not certain:
        source = site.collector.source
        place = source.place if isinstance(source, LocalSource) else None
        if place is not None or site.cluster is not None:
            ask = partial(keys_of, place, site.cluster, state, text)
            keys, problem = await site.queries.answer(("keys", state.name, text), ask)
            found += keys or ()
            problems += [str(problem)] if problem else []
    return FindShown(text, found, problems, site.show_values)


async def _offsets(
    site: Site, state: TopologyState, settings: Settings, text: str
) -> tuple[list[SearchResult], str]:
    outline = state.outline
    found: list[SearchResult] = []
    if outline is None:
        return found, ""
    for spout in outline.readings:
        ask = partial(partitions_of, settings, outline, spout)
        answer, problem = await site.queries.answer(("partitions", state.name, spout), ask)
        if problem:
            return found, str(problem)
        partitions: Sequence[PartitionState] = answer
        found += offsets_of(text, state, partitions)
    return found, ""
