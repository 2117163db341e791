"""The event times of the messages of one partition."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from kstorm.core.watermarks import Prefix
from kstorm.kafka.ports import SourceMessage
from kstorm.kafka.scheme import Values
from kstorm.topology.event_time import NEVER, Latest


class PartitionTimes(Prefix):
    """The latest event time before each offset of a partition."""

    def __init__(self, latest: Latest, reached: int | None = None) -> None:
        """`latest` computes the event time of tuples. `reached` is the latest one before the first
        offset, if it was stored."""
        super().__init__(NEVER if reached is None else reached)
        self._latest_of = latest

    def emitted_rows(self, end: int, rows: Sequence[Values]) -> None:
        """Record that these tuples are emitted, and with them all messages before `end`."""
        self.emitted(end, self._latest_of(rows))

    def emitted_before(
        self,
        end: int,
        message: SourceMessage,
        deserialize: Callable[[SourceMessage], Iterable[Values] | None],
    ) -> None:
        """Record a message that an earlier run emitted and finished."""
        with suppress(Exception):  # it was readable then
            self.emitted_rows(end, list(deserialize(message) or ()))
