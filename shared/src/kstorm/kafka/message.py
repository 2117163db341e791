"""Messages of a source topic, and a placeholder for batches that cannot be decoded."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol

from kstorm.errors import KstormError


class SourceMessage(Protocol):
    """A message as read. It has the methods of `confluent_kafka.Message`, so that it needs no
    wrapper."""

    def topic(self) -> str: ...

    def partition(self) -> int: ...

    def offset(self) -> int: ...

    def key(self) -> bytes | None:
        """Return the key, or None."""

    def value(self) -> bytes | None:
        """Return the value, or None for a tombstone."""

    def headers(self) -> Sequence[tuple[str, str | bytes | None]] | None:
        """Return header names and values, or None without headers."""

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp type and the timestamp in ms since 1970. Type 0: no timestamp."""


class UndecodableBatchError(KstormError):
    """Raised on access to the key or value of a message that cannot be decoded."""

    def __init__(self, batch: "UndecodableBatch") -> None:
        super().__init__(batch.reason)
        self.batch = batch


class UndecodableBatch(NamedTuple):
    """Placeholder for consecutive messages of a partition that cannot be decoded."""

    place: tuple[str, int]
    first: int
    end: int
    """The offset after the last one."""
    reason: str

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.first

    def headers(self) -> None: ...

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def key(self) -> NoReturn:
        raise UndecodableBatchError(self)

    def value(self) -> NoReturn:
        """Raise `UndecodableBatchError`, so that callers need no type check per message."""
        raise UndecodableBatchError(self)
