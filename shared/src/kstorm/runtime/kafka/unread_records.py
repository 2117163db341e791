"""Finds the first record that a group has not read, because offsets alone may count none.

A transaction ends with a marker in each of its partitions. It has an offset, but no consumer reads
it, and no group commits it. The same is true of aborted records. So behind the last record of a
topic that an exactly-once component writes, the committed offset never reaches the end.
"""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings

_FETCH_BYTES: Final = 16_384
_GROUP: Final = "kstorm-unread-records"
"""The client needs a group. It never joins this one, and commits nothing."""


class UnreadRecords:
    """Reads one Kafka. It remembers what it has found for groups that do not move."""

    def __init__(self, settings: Settings) -> None:
        self._config = {
            **settings.client_config,
            "group.id": _GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # One record per partition is enough, and its end is reported without a wait. With so
            # few queued messages, the client would otherwise pause for 1 s.
            "queued.min.messages": 1,
            "fetch.message.max.bytes": _FETCH_BYTES,
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 10,
            "log_level": 0,
        }
        self._consumer: Consumer | None = None
        self._seen: dict[Partition, tuple[int, int]] = {}
        self._records: dict[Partition, int] = {}
        """The first committed record behind an offset."""
        self._empty: dict[Partition, int] = {}
        """An offset before which there are no records from the group's offset on."""

    def first(
        self, unread: Mapping[Partition, tuple[int, int]], within: float
    ) -> Mapping[Partition, int]:
        """Return the offset of each partition's first unread record, or of its end without one.

        `unread` has the committed offset and the end offset. The end is that of the committed
        records, so records of an open transaction are unread. Partitions that Kafka does not answer
        for in time, or whose records may not be read, have the committed offset.
        """
        found: dict[Partition, int] = {}
        asked: dict[Partition, int] = {}
        for partition, (committed, end) in unread.items():
            before, self._seen[partition] = self._seen.get(partition, (0, 0)), (committed, end)
            if committed < before[0] or end < before[1]:  # the topic was recreated
                self._records.pop(partition, None)
                self._empty.pop(partition, None)
            record, empty = self._records.get(partition, -1), self._empty.get(partition, -1)
            if committed <= record < end:
                found[partition] = record
            elif committed <= empty == end:
                found[partition] = end
            else:
                asked[partition] = empty if committed < empty < end else committed
        found |= self._ask(asked, within) if asked else {}
        return {partition: found.get(partition, at) for partition, (at, _) in unread.items()}

    def _ask(self, asked: Mapping[Partition, int], within: float) -> Mapping[Partition, int]:
        deadline = time.monotonic() + within
        if self._consumer is None:
            self._consumer = Consumer(self._config)
        consumer, missing, found = self._consumer, set(asked), {}
        try:
            consumer.assign([TopicPartition(*partition, at) for partition, at in asked.items()])
            while missing and (left := deadline - time.monotonic()) > 0:
                message = consumer.poll(left)
                if message is None:
                    break
                topic, number, offset = message.topic(), message.partition(), message.offset()
                if topic is None or number is None or offset is None:
                    continue  # an error of the client, such as a lost connection
                partition, error = Partition(topic, number), message.error()
                if partition not in missing:
                    continue
                missing.discard(partition)
                consumer.incremental_unassign([TopicPartition(*partition)])
                if error is None:
                    self._records[partition] = found[partition] = offset
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._empty[partition] = found[partition] = offset
            consumer.unassign()
        except KafkaException:
            self._consumer = None
        return found
