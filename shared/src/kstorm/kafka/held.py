"""What a `KafkaBolt` holds while a serializer cannot answer: tuples in their order, bounded in time, number and bytes.

A tuple is held for the message timeout at most. By then its spout has given it up and emits the message anew, so it would
only wait beside its own replay. Who brings a tuple to a full store waits for room: then input waits in Kafka, not in memory.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from kstorm.topology import Tuple

MOST_TUPLES: Final = 10_000
"""More than a frame may have by default, so that a frame waits for room once at most."""
MOST_BYTES: Final = 16 * 1024 * 1024


class Held(NamedTuple):
    """One tuple that waits."""

    topic: str
    tuple: Tuple
    deadline: float
    size: int


class HeldTuples:
    """The tuples of one task. `patience`: seconds after which one has waited in vain."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._waiting: deque[Held] = deque()
        self._bytes = 0
        self._left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether the next one has to wait for room."""
        return len(self._waiting) >= MOST_TUPLES or self._bytes >= MOST_BYTES

    @property
    def first(self) -> Held:
        """The one that came first."""
        return self._waiting[0]

    def add(self, topic: str, tuple: Tuple) -> None:
        """Takes one, also beyond the bounds: whoever can wait asks `full` before."""
        # A tuple came as MessagePack, or can be written as such; in a test it may hold anything.
        size = len(msgspec.msgpack.encode(tuple.values, enc_hook=repr))
        self._waiting.append(Held(topic, tuple, self._clock() + self._patience, size))
        self._bytes += size

    def take_first(self) -> Tuple:
        """Lets go of the one that came first."""
        held = self._waiting.popleft()
        self._bytes -= held.size
        self._left.set()
        return held.tuple

    def take_expired(self) -> list[Tuple]:
        """Lets go of those that have waited in vain."""
        now, expired = self._clock(), []
        while self._waiting and self._waiting[0].deadline <= now:
            expired.append(self.take_first())
        return expired

    def clear(self) -> None:
        """Lets go of all."""
        while self._waiting:
            self.take_first()

    async def room(self) -> None:
        """Waits until it is not full."""
        while self.full:
            self._left.clear()
            await self._left.wait()
