"""The messages of the topology of streams: each has an event time, a group and a side.

Event time goes as messages do, so many a second, and each message is up to some seconds behind it. Of a group there are four
messages in a row, two on each side.
"""

import random
from typing import Final

import msgspec

from tests.chaos.feed import VOCABULARY, Posted
from tests.chaos.topology import PARTITIONS

EPOCH_MS: Final = 1_700_000_000_000
"""The event time of the beginning."""
BEHIND_MS: Final = 3000
"""Most that a message is behind."""
_GROUP: Final = 4
_WORDS: Final = 5
_SIDES: Final = ("left", "right")
_BEFORE_ALL_MS: Final = 3_600_000
_LAST_BEHIND_MS: Final = 3_600_000
_LAST_PER_PARTITION: Final = 40


class Event(msgspec.Struct, frozen=True):
    """What a message says."""

    id: str
    at: int
    """Unix milliseconds."""
    group: str
    side: str
    text: str


def event(number: int, rate: float) -> str:
    """The message of that number, the same always. `rate` is messages a second."""
    chance = random.Random(number)
    at = EPOCH_MS + int(number * 1000 / rate) - chance.randrange(BEHIND_MS)
    text = " ".join(chance.choices(VOCABULARY, k=_WORDS))
    return _text(Event(f"m{number}", at, f"g{number // _GROUP}", _SIDES[number % 2], text))


def bad_event(id: str, text: str) -> str:
    """A message of long ago, alone in its group."""
    return _text(Event(id, EPOCH_MS - _BEFORE_ALL_MS, id, "left", text))


def last_events(number: int, rate: float) -> list[Posted]:
    """Messages of the far future, to be written when `number` others are finished: by them time passes the end of every window
    that another is in. So many that every task gets some from every task; each is alone in its group."""
    at = EPOCH_MS + int(number * 1000 / rate) + _LAST_BEHIND_MS + 1
    last = [
        Event(f"last{place}", at, f"last{place}", _SIDES[place // PARTITIONS % 2], "")
        for place in range(_LAST_PER_PARTITION * PARTITIONS)
    ]
    return [Posted(each.id, _text(each), place % PARTITIONS) for place, each in enumerate(last)]


def _text(event: Event) -> str:
    return msgspec.json.encode(event).decode()
