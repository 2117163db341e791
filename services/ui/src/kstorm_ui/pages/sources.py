"""Page with the partitions of the sources."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm_ui.query_cache import QueryProblem
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site
from kstorm_ui.sources.partitions import PartitionState, partitions_of
from kstorm_ui.sources.topic_records import topics_of
from kstorm_ui.topology_state import ComponentState, TopologyState
from kstorm_ui.ui_settings import settings_of


class SpoutShown(msgspec.Struct, frozen=True):
    """Source partitions of one spout."""

    component: str
    topic: str
    """Empty if it does not read Kafka."""
    partitions: Sequence[PartitionState]
    problem: str
    """Reason why the partitions are unknown, or ""."""
    own: Mapping[str, float]
    """Metrics of its source."""


class SourcesShown(msgspec.Struct, frozen=True):
    """Sources of a topology."""

    spouts: Sequence[SpoutShown]
    topics: Mapping[str, str]
    """Topics whose messages can be browsed, and what the topology does with each."""


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/sources", "sources.html", partial(_sources, site))


async def _sources(site: Site, request: Request) -> PageResult:
    state = site.memory(request).state
    asking = [_spout(site, state, each) for each in state.components if each.kind == "spout"]
    found = await asyncio.gather(*asking)
    problems = [problem for _, problem in found if problem]
    nothing = problems and not any(each.partitions for each, _ in found)
    return PageResult(
        SourcesShown([each for each, _ in found], topics_of(state.outline)),
        problems[0] if nothing else QueryProblem(),
        state,
    )


async def _spout(
    site: Site, state: TopologyState, spout: ComponentState
) -> tuple[SpoutShown, QueryProblem]:
    settings, outline = settings_of(state.bootstrap, state.zookeeper), state.outline
    if settings is None or outline is None or spout.component not in outline.readings:
        return SpoutShown(spout.component, "", (), "", spout.own), QueryProblem()
    ask = partial(partitions_of, settings, outline, spout.component)
    found, problem = await site.queries.answer(("partitions", state.name, spout.component), ask)
    topic = outline.readings[spout.component].topic
    return SpoutShown(spout.component, topic, found or (), str(problem), spout.own), problem
