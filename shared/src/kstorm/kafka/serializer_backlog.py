"""Tuples of a `KafkaBolt` that wait for a serializer, in order. Time, number and bytes are limited.

A tuple is held for at most the message timeout. After that time its spout emits the message again,
so it would be useless to hold the tuple any longer. Adding to a full buffer blocks, so that input
waits in Kafka instead of in memory.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from kstorm.topology import Tuple

MOST_TUPLES: Final = 10_000
"""This is more than the default size of a frame, so that a frame waits for space at most once."""
MOST_BYTES: Final = 16 * 1024 * 1024


class WaitingTuple(NamedTuple):
    topic: str
    tuple: Tuple
    deadline: float
    size: int


class SerializerBacklog:
    """The held tuples of one task. A tuple expires after `patience` seconds."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._waiting: deque[WaitingTuple] = deque()
        self._bytes = 0
        self._left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= MOST_TUPLES or self._bytes >= MOST_BYTES

    @property
    def first(self) -> WaitingTuple:
        return self._waiting[0]

    def add(self, topic: str, tuple: Tuple) -> None:
        """Append a tuple, even beyond the limits. Callers that can wait check `full` first."""
        # Tuples arrive as MessagePack or can be encoded as such. In tests they may contain
        # anything.
        size = len(msgspec.msgpack.encode(tuple.values, enc_hook=repr))
        self._waiting.append(WaitingTuple(topic, tuple, self._clock() + self._patience, size))
        self._bytes += size

    def take_first(self) -> Tuple:
        held = self._waiting.popleft()
        self._bytes -= held.size
        self._left.set()
        return held.tuple

    def take_expired(self) -> list[Tuple]:
        """Remove and return the tuples whose wait has timed out."""
        now, expired = self._clock(), []
        while self._waiting and self._waiting[0].deadline <= now:
            expired.append(self.take_first())
        return expired

    def clear(self) -> None:
        while self._waiting:
            self.take_first()

    async def room(self) -> None:
        """Wait until the buffer has space."""
        while self.full:
            self._left.clear()
            await self._left.wait()
