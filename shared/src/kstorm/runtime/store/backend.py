"""The interface of a table's storage."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Message

from kstorm.core.engine.effects import Pair
from kstorm.core.recovery import LocalCopy

AT_ONCE: Final = 500
"""Default for the number of pairs held in memory at a time."""


class OpenedPartition(NamedTuple):
    """The result of opening a partition."""

    records: int
    """Number of changes read from the changelog."""
    refused: list[tuple[Message, str]]
    """Rejected records, with the reason. Limited to the first ones."""
    whole: bool = False
    """True if there was no valid local copy, so that the whole changelog was read."""


class StateBackend(Protocol):
    """A table of byte strings. A partition belongs to the task of the same number, and to one
    process at a time."""

    async def open(self, partition: int) -> OpenedPartition:
        """Open a partition and replay its changelog to the end. Does not block the event loop.

        Raises `StorageError` for disk problems, `BrokerError` or `TopicError` for problems with
        Kafka. If the call is cancelled, it closes the partition, and keeps the recovered data for
        the next call.
        """

    def get(self, partition: int, key: bytes) -> bytes | None:
        """Return the stored value of a key, or None."""

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        """Yield the stored pairs with keys from `start` on, in order. Reads at most `at_once` pairs
        at a time."""

    def copy(self, partition: int) -> LocalCopy | None:
        """Return the state of the local copy. None if the partition is not open or not
        recovered."""

    def keep(self, partition: int, changes: Sequence[Pair], reached: int, current: float) -> None:
        """Store changes that are committed to the changelog, up to the offset `reached`. Raises
        `StorageError`.

        `current` is a Unix time at which the changelog had no later changes. Does nothing if the
        partition is not open.
        """

    def renew(self, partition: int, current: float) -> None:
        """Record that the owner was still valid at this Unix time and wrote nothing. So the copy is
        current as of that time."""

    def close(self, partition: int) -> None:
        """Close a partition, so that another process can open it."""
