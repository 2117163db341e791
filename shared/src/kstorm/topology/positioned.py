"""Base of spouts that have a position in a log that can be read again."""

from collections.abc import Mapping
from typing import Any, TypedDict


class Position(int):
    """A position that also has the latest event time of the messages before it."""

    reached: int | None = None

    @classmethod
    def of(cls, offset: int, reached: int | None) -> "Position":
        """Make a position."""
        found = cls(offset)
        found.reached = reached
        return found


class LetterContent(TypedDict, total=False):
    """Fields of a dead letter that only the spout of its message knows."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | None]]
    timestamp: int
    replays: int


class Positioned:
    """Mixin for spouts that read a Kafka topic. Exactly-once processing requires it of every spout.

    The position is committed atomically with the tuples emitted up to it, as offsets of the spout's
    consumer group.
    """

    def positions(self) -> Mapping[tuple[str, int], int]:
        """Return, by topic and partition, the offset of the first message that has not been emitted
        yet.

        Must be cheap: it is called at every turn.
        """
        raise NotImplementedError

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Called when everything emitted before these positions is committed."""

    def gave_up(self, message_id: Any) -> LetterContent:
        """Called at the end of an epoch if a tuple of the message does not fit into a record.

        The tuple becomes a dead letter with the returned content. Return the message's key and
        value only if no other tuple of it is sent, because the letter may be replayed.
        """
        return {}

    def before_commit(self) -> None:
        """Called at the end of an epoch, after all of its tuples were encoded.

        Records that the spout writes now are committed with these tuples.
        """
