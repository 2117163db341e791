"""Page with the outcomes of a topology's messages, by partition."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from kstorm.errors import FrameError
from kstorm.kafka.finished_ranges import FinishedRange, decode_range
from kstorm.operations.offsets.accounts import PartitionAccount, accounts_of
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import bounds, read_topic
from kstorm.topology.names import NamesOf
from kstorm_ui.responses import PageResult
from kstorm_ui.site import Site


def routes(site: Site) -> list[Route]:
    return site.both("/t/{topology}/audit", "audit.html", partial(_audit, site))


async def _audit(site: Site, request: Request) -> PageResult:
    state = site.memory(request).state
    answer, problem = await site.ask_kafka("finished", state, accounted)
    return PageResult(answer or Accounted([], 0), problem, state)


MOST_RANGES: Final = 100_000


class Accounted(msgspec.Struct, frozen=True):
    """Outcomes by partition, from the newest ranges."""

    partitions: Sequence[PartitionAccount]
    older: int
    """Older records that were not read."""


def accounted(settings: Settings, topology: str, most: int = MOST_RANGES) -> Accounted:
    """Read the newest ranges. Raises `BrokerError` if Kafka does not respond."""
    topic = NamesOf(topology).finished_topic
    there = bounds(settings, topic)
    if there is None:
        return Accounted([], 0)
    first = max(there[0], there[1] - most)
    return Accounted(accounts_of(_ranges(settings, topic, first)), first - there[0])


def _ranges(settings: Settings, topic: str, first: int) -> Iterator[FinishedRange]:
    for record in read_topic(settings, topic, first):
        value = record.value()
        try:
            yield decode_range(value.encode() if isinstance(value, str) else value or b"")
        except FrameError:
            continue
