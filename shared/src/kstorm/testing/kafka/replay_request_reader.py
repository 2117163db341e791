"""Reads the replay orders of a topology from a fake Kafka: the `ReplayRequestReader` of a
`KafkaSpout`.

The same contract test runs against it and the real one
(`tests/integration/test_replay_request_readers.py`). The first call only requests records. `at_end`
is True only after the last record, and after the end of all transactions that were open at
`ask_end`. A missing topic or an unreachable Kafka gives no records instead of an error.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kstorm.kafka.ports import Partition
from kstorm.testing.kafka.broker import PendingRequests, Topics
from kstorm.testing.logs import Transaction

_MOST: Final = 500

OpenTransactionsOf = Callable[[tuple[str, int]], Sequence[Transaction]]
"""Returns the transactions that are open in a partition."""


class FakeReplayRequests:
    """Reads one topic."""

    def __init__(
        self,
        topics: Topics,
        answers: PendingRequests,
        topic: str,
        open_at: OpenTransactionsOf = lambda place: (),
    ) -> None:
        self._topics, self._answers, self._place = topics, answers, Partition(topic, 0)
        self._open_at = open_at
        self._next = 0
        self._asked = self._closed = False
        self.ask_end()

    def ask_end(self) -> None:
        self.at_end = False
        self._waits_for = list(self._open_at((self._place.topic, self._place.partition)))

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        if self._closed:
            raise RuntimeError("Consumer closed")
        log = self._topics.find(self._place)
        if log is None or self._answers.away:
            return []
        if not self._asked:
            self._asked = True
            return []
        place = (self._place.topic, self._place.partition)
        # A transaction's records are appended when it is committed.
        self._waits_for = [one for one in self._waits_for if one.is_open_at(place)]
        records = log.since(self._next, _MOST)
        if records:
            self._next = records[-1].offset() + 1
        elif not self._waits_for:
            self.at_end = True
        return [(record.key(), record.value()) for record in records]

    def close(self) -> None:
        self._closed = True
