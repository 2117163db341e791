"""Reads the topic `<topology>.__orders`.

Exactly-once spouts end requests in transactions. A reader of committed records receives the end of
a partition at the first open transaction. So the reader looks up the end of the log itself, and has
reached it when these transactions have ended too.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.partition_bounds import partition_bounds

_MOST: Final = 500
_CALL_SECS: Final = 2.0
_PAUSE_SECS: Final = 1.0


class KafkaReplayRequests:
    """Reads replay requests without a consumer group."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._config = {
            **settings.client_config,
            "group.id": "kstorm-orders",
            "enable.auto.commit": False,
            "client.id": settings.instance,
        }
        self._place = TopicPartition(topic, 0, OFFSET_BEGINNING)
        self._consumer = Consumer(
            {**self._config, "enable.partition.eof": True, "isolation.level": "read_committed"}
        )
        self._consumer.assign([self._place])
        self._next = 0
        """The offset after the last one that was read."""
        self._closing = threading.Event()
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="orders")
        self._end: Future[int] | None = None
        self.at_end = False

    def ask_end(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end, self.at_end = None, False

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """This ignores errors of Kafka, because the reader of the source reports them."""
        found = []
        for record in self._consumer.consume(_MOST, 0):
            error = record.error()
            if error is None:
                found.append((_bytes(record.key()), _bytes(record.value())))
                self._next = (record.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # It also counts markers and aborted records.
                self._next = max(self._next, record.offset() or 0)
        if self._end is None and not self.at_end:
            # Starting it only here lets one look-up serve all tasks that have asked.
            self._end = self._asking.submit(self._ask)
        if self._end is not None and self._end.done() and self._next >= self._end.result():
            self._end, self.at_end = None, True
        return found

    def close(self) -> None:
        """A look-up that is under way ends within seconds, in its own thread."""
        self._closing.set()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._consumer.close()

    def _ask(self) -> int:
        """Look up the end, including transactions that are open, until Kafka returns it."""
        with closing(Consumer({**self._config, "isolation.level": "read_uncommitted"})) as consumer:
            while not self._closing.is_set():
                try:
                    return partition_bounds(consumer, self._place, _CALL_SECS)[1]
                except KafkaException:
                    self._closing.wait(_PAUSE_SECS)
        return -1


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
