"""The partitions of the sources."""

import asyncio
from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm_ui.settings import settings_of
from kstorm_ui.site import Site
from kstorm_ui.sources.partitions import PartitionState, partitions_of
from kstorm_ui.state import ComponentState, TopologyState


def routes(site: Site) -> list[Route]:
    """One page."""

    async def sources(request: Request) -> Response:
        state = site.memory(request).state
        asking = [_partitions(site, state, each) for each in state.components if each.kind == "spout"]
        return site.page("sources.html", state=state, found=await asyncio.gather(*asking))

    return [Route("/t/{topology}/sources", sources)]


async def _partitions(
    site: Site, state: TopologyState, spout: ComponentState
) -> tuple[ComponentState, str, Sequence[PartitionState], str]:
    """The spout, its topic, its partitions, and why there are none."""
    settings, outline = settings_of(state.bootstrap, state.zookeeper), state.outline
    if settings is None or outline is None or spout.component not in outline.readings:
        return spout, "", (), ""
    ask = partial(partitions_of, settings, outline, spout.component)
    found, problem = await site.asked.answer(("partitions", state.name, spout.component), ask)
    return spout, outline.readings[spout.component].topic, found or (), problem
