"""The messages of the streams topology: each has an event time, a group and a side.

Event time advances with the messages, at their rate, and each message is up to some seconds behind
it. A group is four consecutive messages, two on each side.
"""

import random
from typing import Final

import msgspec

from tests.chaos.feed import VOCABULARY, PostedMessage
from tests.chaos.topology import PARTITIONS

EPOCH_MS: Final = 1_700_000_000_000
"""The event time at the start."""
BEHIND_MS: Final = 3000
"""The most that a message is behind."""
_GROUP: Final = 4
_WORDS: Final = 5
_SIDES: Final = ("left", "right")
_BEFORE_ALL_MS: Final = 3_600_000
_LAST_BEHIND_MS: Final = 3_600_000
_LAST_PER_PARTITION: Final = 40


class Event(msgspec.Struct, frozen=True):
    """The content of a message."""

    id: str
    at: int
    """Unix milliseconds."""
    group: str
    side: str
    text: str


def event(number: int, rate: float) -> str:
    """Return the message with this number, always the same. `rate` is messages per second."""
    chance = random.Random(number)
    at = EPOCH_MS + int(number * 1000 / rate) - chance.randrange(BEHIND_MS)
    text = " ".join(chance.choices(VOCABULARY, k=_WORDS))
    return _text(Event(f"m{number}", at, f"g{number // _GROUP}", _SIDES[number % 2], text))


def bad_event(id: str, text: str) -> str:
    """Return a message from long ago, alone in its group."""
    return _text(Event(id, EPOCH_MS - _BEFORE_ALL_MS, id, "left", text))


def last_events(number: int, rate: float) -> list[PostedMessage]:
    """Return messages of the far future, to be written when `number` others are finished.

    They advance time past the end of all windows of the others. There are so many that every task
    gets some from every task. Each is alone in its group.
    """
    at = EPOCH_MS + int(number * 1000 / rate) + _LAST_BEHIND_MS + 1
    last = [
        Event(f"last{place}", at, f"last{place}", _SIDES[place // PARTITIONS % 2], "")
        for place in range(_LAST_PER_PARTITION * PARTITIONS)
    ]
    return [
        PostedMessage(each.id, _text(each), place % PARTITIONS) for place, each in enumerate(last)
    ]


def _text(event: Event) -> str:
    return msgspec.json.encode(event).decode()
