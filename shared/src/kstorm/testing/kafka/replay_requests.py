"""Reads the replay orders of a topology from a fake Kafka: the `OrderReader` of a `KafkaSpout`.

It is no more lenient than the real one (`tests/integration/test_replay_request_readers.py`). The first call
only requests records. The end is reported only after the last record. A missing topic or an
unreachable Kafka gives no records instead of an error.
"""

from collections.abc import Sequence
from typing import Final

from kstorm.kafka.ports import Partition
from kstorm.testing.kafka.broker import PendingRequests, Topics

_MOST: Final = 500


class FakeReplayRequests:
    """Reads one topic. `at_end` is True once a read has found no more records."""

    def __init__(self, topics: Topics, answers: PendingRequests, topic: str) -> None:
        self._topics, self._answers, self._place = topics, answers, Partition(topic, 0)
        self._next = 0
        self._asked = self._closed = False
        self.at_end = False

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        if self._closed:
            raise RuntimeError("Consumer closed")
        log = self._topics.find(self._place)
        if log is None or self._answers.away:
            return []
        if not self._asked:
            self._asked = True
            return []
        records = log.since(self._next, _MOST)
        if records:
            self._next = records[-1].offset() + 1
        else:
            self.at_end = True
        return [(record.key(), record.value()) for record in records]

    def close(self) -> None:
        self._closed = True
