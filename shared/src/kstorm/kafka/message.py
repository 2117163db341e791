"""A message of a source topic, as read."""

from typing import Protocol


class SourceMessage(Protocol):
    """A message as read; exactly the shape of `confluent_kafka.Message`, so that none has to be wrapped."""

    def topic(self) -> str:
        """The topic it was read from."""
        ...

    def partition(self) -> int:
        """The partition it was read from."""
        ...

    def offset(self) -> int:
        """Its offset there."""
        ...

    def key(self) -> bytes | None:
        """Its key, if it has one."""
        ...

    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        ...
