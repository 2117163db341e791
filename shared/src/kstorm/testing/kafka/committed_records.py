"""Transactions of a fake Kafka: records that appear when their epoch commits, and committed spout
positions."""

from collections.abc import Callable
from contextlib import suppress

from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import KstormError, TopicError
from kstorm.kafka.ports import Partition
from kstorm.testing.external_topics import PermanentRefusal
from kstorm.testing.kafka.broker import PendingRequests, Topics, as_bytes, as_headers
from kstorm.testing.kafka.writer import MAX_BYTES, Refuse, size

Committed = Callable[[Partition], int | None]
"""Returns the committed position of a partition: None while it is open in a transaction, -1 if
there is none."""


class CommittedRecords:
    """The `ExternalTopics` of a cluster on a fake Kafka. It appends records only at commit, so that no
    reader sees them earlier."""

    def __init__(self, topics: Topics, answers: PendingRequests, refuse: Refuse) -> None:
        self._topics, self._answers, self._refuse = topics, answers, refuse

    @property
    def away(self) -> bool:
        return self._answers.away

    def refusal(self, record: OutgoingRecord) -> str:
        """Reasons come from the test's `refuse`, a missing topic, or a record that is too large."""
        reason = self._refuse(record.topic, as_bytes(record.key), as_bytes(record.value))
        if reason is not None:
            return reason
        if size(record.key) + size(record.value) > MAX_BYTES:
            return PermanentRefusal("it is too large")
        try:
            self._topics.log(record.topic, 0)
        except TopicError as missing:
            return str(missing)
        return ""

    def partition(self, record: OutgoingRecord) -> int:
        return self._topics.choose_partition(record.topic, as_bytes(record.key))

    def take(self, record: OutgoingRecord, partition: int) -> None:
        """Append the record, or lose it if its topic has been deleted meanwhile."""
        with suppress(TopicError):
            self._topics.append(
                record.topic,
                as_bytes(record.key),
                as_bytes(record.value),
                as_headers(None if record.headers is None else list(record.headers)),
                partition,
            )


class FakePositions:
    """The `PositionReader` of one spout task. It never answers in the call that asks, nor while the
    position is open in a transaction."""

    def __init__(self, answers: PendingRequests, committed: Committed) -> None:
        self._answers, self._committed = answers, committed
        self._asked: set[Partition] = set()
        self._answered: set[Partition] = set()

    def position(self, partition: Partition) -> int | None:
        if partition not in self._asked:
            self._asked.add(partition)
            self._answers.later(self, lambda: self._answered.add(partition))
            return None
        found = self._committed(partition) if partition in self._answered else None
        if found is not None:
            self._asked.discard(partition)
            self._answered.discard(partition)
        return found

    def problem(self) -> KstormError | None:
        """Return None, because `FakeOffsets` already reports an outage."""
        return None

    def close(self) -> None: ...
