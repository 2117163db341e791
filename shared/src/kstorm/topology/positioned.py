"""Base of spouts that have a position in a log that can be read again."""

from collections.abc import Mapping


class Position(int):
    """A position that also has the latest event time of the messages before it."""

    reached: int | None = None

    @classmethod
    def of(cls, offset: int, reached: int | None) -> "Position":
        """Make a position."""
        found = cls(offset)
        found.reached = reached
        return found


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
