"""Looks up the committed offsets of a spout's consumer group. Implements `PositionReader`."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kstorm.errors import BrokerError, KstormError
from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.client_errors import NOT_ALLOWED, raise_first_error
from kstorm.runtime.kafka.position_notes import with_note

_ANSWER_SECS: Final = 20.0
_CALL_SECS: Final = 5.0
_PAUSE_SECS: Final = 0.1
# Parallel look-ups, so that a partition that waits for a transaction does not delay the others.
_AT_ONCE: Final = 8


class GroupPositions:
    """Committed offsets of one consumer group. Used on the event loop, where only `close` blocks.

    It uses a consumer that is not a member. An admin client that is closed during a request can
    crash or block the process (librdkafka 2.16.0).
    """

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings, self._group = settings, group
        self._consumer = Consumer(
            {
                **settings.client_config,
                "client.id": f"{settings.instance}-positions",
                "group.id": group,
                # Wait for the outcome of open transactions, because they may be this spout's.
                "isolation.level": "read_committed",
            }
        )
        self._closing = threading.Event()
        self._asking = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="positions")
        self._asked: dict[Partition, Future[int]] = {}
        self._problem: BrokerError | None = None

    def position(self, partition: Partition) -> int | None:
        future = self._asked.get(partition)
        if future is None:
            self._asked[partition] = self._asking.submit(self._ask, partition)
            return None
        if not future.done():
            return None
        del self._asked[partition]
        try:
            offset = future.result()
        except KafkaException as error:
            self._problem = BrokerError(
                f"the offsets of the group {self._group!r} cannot be read from Kafka at "
                f"{self._settings.bootstrap_servers}: {error.args[0].str()}"
            )
            return None
        self._problem = None
        return offset if offset >= 0 else -1

    def problem(self) -> KstormError | None:
        return self._problem

    def close(self) -> None:
        """Close the client. A pending look-up delays this by up to 5 s."""
        self._closing.set()
        self._asking.shutdown(cancel_futures=True)
        self._consumer.close()

    def _ask(self, partition: Partition) -> int:
        deadline = time.monotonic() + _ANSWER_SECS
        while True:
            try:
                found = self._consumer.committed([TopicPartition(*partition)], timeout=_CALL_SECS)
                raise_first_error(found)
            except KafkaException as error:
                over = error.args[0].code() in NOT_ALLOWED or time.monotonic() > deadline
                if over or self._closing.wait(_PAUSE_SECS):
                    raise
            else:
                return with_note(found[0].offset, found[0].metadata)
