"""A message of a source topic, as read; and what stands for messages that cannot be."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol

from kstorm.errors import KstormError


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

    def headers(self) -> Sequence[tuple[str, str | bytes | None]] | None:
        """Its headers, names and values; None if it has none."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """What kind of time its topic keeps, and the time of this message, in ms since 1970; the kind is 0 if it has none."""
        ...


class UndecodableBatchError(KstormError):
    """Somebody asked for the value of what cannot be read."""

    def __init__(self, batch: "UndecodableBatch") -> None:
        super().__init__(batch.reason)
        self.batch = batch


class UndecodableBatch(NamedTuple):
    """Stands among the messages of a partition for some in a row of which none can be read."""

    place: tuple[str, int]
    first: int
    end: int
    """The offset behind the last."""
    reason: str

    def topic(self) -> str:
        """The topic they are in."""
        return self.place[0]

    def partition(self) -> int:
        """The partition they are in."""
        return self.place[1]

    def offset(self) -> int:
        """That of the first."""
        return self.first

    def headers(self) -> None:
        """There are none that could be read."""

    def timestamp(self) -> tuple[int, int]:
        """There is none that could be read."""
        return 0, 0

    def key(self) -> NoReturn:
        """Raises `UndecodableBatchError`."""
        raise UndecodableBatchError(self)

    def value(self) -> NoReturn:
        """Raises `UndecodableBatchError`, so that whoever reads messages needs no look at each."""
        raise UndecodableBatchError(self)
