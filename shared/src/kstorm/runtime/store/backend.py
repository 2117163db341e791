"""What a driver needs of a table, whatever keeps it."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Message

from kstorm.core.engine.effects import Pair
from kstorm.core.recovery import Copy

AT_ONCE: Final = 500
"""Pairs that are in memory at a time, if nobody says another number."""


class Opened(NamedTuple):
    """What opening a partition came to."""

    records: int
    """Changes read from the changelog."""
    refused: list[tuple[Message, str]]
    """Records left out, and why; of very many the first."""


class StateBackend(Protocol):
    """A table of byte strings; a partition belongs to the task of the same number, and to one process at a time."""

    async def open(self, partition: int) -> Opened:
        """Opens a partition and brings it up to the end of its changelog. The event loop goes on meanwhile.

        Raises `StorageError` if the disk is the problem, `BrokerError` or `TopicError` if Kafka is. Cancelled, it closes the
        partition, and keeps what it has recovered for the next time.
        """
        ...

    def get(self, partition: int, key: bytes) -> bytes | None:
        """The stored value of a key; None if there is none."""
        ...

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        """Every stored pair whose key is not before `start`, by key, so many at a time as it is asked for them."""
        ...

    def copy(self, partition: int) -> Copy | None:
        """How far what is stored of a partition includes its changelog; None while it is not open, or not brought up to date."""
        ...

    def keep(self, partition: int, changes: Sequence[Pair], reached: int, current: float) -> None:
        """Writes changes that are committed to the changelog up to the offset `reached`. `current`: a Unix time at which the
        changelog had nothing else behind it. Without effect on a partition that is not open. Raises `StorageError`."""
        ...

    def renew(self, partition: int, current: float) -> None:
        """Nothing was written to a partition, and its owner was still known as such at this Unix time: the copy is no older."""
        ...

    def close(self, partition: int) -> None:
        """Lets go of a partition, so that another process may open it."""
        ...
