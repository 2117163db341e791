"""The dead letters and the events of a topology, as the pages need them: the newest, if there are very many."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.cli.letters import read_letters
from kstorm.events import Event
from kstorm.inspect.letters import Numbered
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.one_partition import bounds
from kstorm.runtime.service.settings import Settings
from kstorm.topology.names import NamesOf

MOST_LETTERS: Final = 50_000
MOST_EVENTS: Final = 20_000


class Found(msgspec.Struct, frozen=True):
    """Letters without what their messages hold."""

    letters: Sequence[Numbered]
    older: bool
    """Whether there are older ones, which were not read."""


def letters_of(settings: Settings, topology: str, most: int = MOST_LETTERS) -> Found:
    """Those that are left of the newest records, the oldest first. Raises `BrokerError` if Kafka does not say."""
    there = bounds(settings, NamesOf(topology).dead_letters_topic)
    if there is None:
        return Found([], False)
    first = max(there[0], there[1] - most)
    return Found(read_letters(settings, topology, first).letters, first > there[0])


def events_of(settings: Settings, topology: str) -> Sequence[Event]:
    """The newest events, the newest first. Raises `BrokerError` if Kafka does not say."""
    there = bounds(settings, NamesOf(topology).events_topic)
    if there is None:
        return []
    first = max(there[0], there[1] - MOST_EVENTS)
    return list(read_events(settings, topology, first))[::-1]
