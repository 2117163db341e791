"""Page with the messages of a topic that the topology reads or writes."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm_ui.query_cache import ABSENT, QueryProblem
from kstorm_ui.responses import PageResult
from kstorm_ui.site import NOT_TOLD, Site
from kstorm_ui.sources.topic_records import MOST, ListedRecord, RecordPage, records_of, settings_for
from kstorm_ui.sources.topic_records import topics_of as topics_to_browse
from kstorm_ui.ui_settings import settings_of


class RecordsShown(msgspec.Struct, frozen=True):
    topic: str
    topics: Mapping[str, str]
    """Topics that can be browsed, and what the topology does with each."""
    is_source: bool
    """True if each record is a message with a page of its own."""
    partition: int | None
    offset: int | None
    partitions: Sequence[tuple[int, int, int]]
    """Partition, first offset and end."""
    records: Sequence[ListedRecord]
    values: bool
    """True if keys and values are shown."""
    older: int | None
    """Offset of the previous page, or None."""
    newer: int | None
    """Offset of the next page, or None."""


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/records/{topic}", "records.html", partial(_records, site))


async def _records(site: Site, request: Request) -> PageResult:
    state, topic = site.memory(request).state, request.path_params["topic"]
    topics = topics_to_browse(state.outline)
    number, offset = (_number(request, name) for name in ("partition", "offset"))
    if number is None:
        offset = None
    settings = settings_of(state.bootstrap, state.zookeeper)
    answer: RecordPage | None = None
    if topic not in topics or state.outline is None:
        known = ", ".join(topics) or "none that is known"
        problem = QueryProblem(
            f"{state.name} has no topic {topic!r}: its topics are {known}", ABSENT
        )
    elif settings is None:
        problem = QueryProblem(NOT_TOLD)
    else:
        there = settings_for(settings, state.outline, topic)
        ask = partial(records_of, there, topic, number, offset, values=site.show_values)
        answer, problem = await site.queries.answer(
            ("records", state.name, topic, number, offset), ask
        )
    found = answer or RecordPage([], [])
    older, newer = _around(found, number)
    data = RecordsShown(
        topic=topic,
        topics=topics,
        is_source=state.outline is not None
        and any(each.reads(topic) for each in state.outline.readings.values()),
        partition=number,
        offset=offset,
        partitions=found.partitions,
        records=found.records,
        values=site.show_values,
        older=older,
        newer=newer,
    )
    return PageResult(data, problem, state)


def _around(found: RecordPage, number: int | None) -> tuple[int | None, int | None]:
    """Return the offsets of the pages before and after this one, in one partition."""
    if number is None or not found.records:
        return None, None
    _, start, end = found.partitions[number]
    offsets = [each.offset for each in found.records]
    older, newer = max(start, min(offsets) - MOST), max(offsets) + 1
    return older if min(offsets) > start else None, newer if newer < end else None


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
