"""The dead letters and events of a topology for the pages, limited to the newest."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.events import Event
from kstorm.operations.letters.reading import read_letters
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import bounds
from kstorm.topology.names import NamesOf

MOST_LETTERS: Final = 50_000
MOST_EVENTS: Final = 20_000


class FoundLetters(msgspec.Struct, frozen=True):
    """Dead letters without their message contents."""

    letters: Sequence[NumberedLetter]
    older: bool
    """True if older ones exist that were not read."""


def letters_of(settings: Settings, topology: str, most: int = MOST_LETTERS) -> FoundLetters:
    """Return the dead letters in the newest records, oldest first. Raises `BrokerError` if Kafka
    does not respond."""
    there = bounds(settings, NamesOf(topology).dead_letters_topic)
    if there is None:
        return FoundLetters([], False)
    first = max(there[0], there[1] - most)
    return FoundLetters(read_letters(settings, topology, first).letters, first > there[0])


def events_of(settings: Settings, topology: str) -> Sequence[Event]:
    """Return the newest events, newest first. Raises `BrokerError` if Kafka does not respond."""
    there = bounds(settings, NamesOf(topology).events_topic)
    if there is None:
        return []
    first = max(there[0], there[1] - MOST_EVENTS)
    return list(read_events(settings, topology, first))[::-1]
