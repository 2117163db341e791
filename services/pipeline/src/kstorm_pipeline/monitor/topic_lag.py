"""Finds the number of records of the topic that bronze lacks, and the age of the oldest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from kstorm_pipeline.checkpoints import last_done
from kstorm_pipeline.monitor.lag import TableLag
from kstorm_pipeline.topic_identity import client_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings

_WAIT_MILLIS = 200
_MOST_EMPTY = 10
"""After this many empty polls, only transaction markers are left."""
_EARLIEST, _LATEST = -2, -1
"""Values in Spark's JSON of starting offsets."""


class TopicLag:
    """Consumer that reads the first record of each partition that bronze lacks. Not thread-safe."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark, self._settings = spark, settings
        self._jvm = cast("Any", spark._jvm)
        options = client_options(settings) | {
            "enable.auto.commit": "false",
            "max.poll.records": "1",
            "max.partition.fetch.bytes": "1024",
        }
        properties: Any = self._jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        for side in ("key", "value"):
            properties.setProperty(
                f"{side}.deserializer",
                "org.apache.kafka.common.serialization.ByteArrayDeserializer",
            )
        self._consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)

    def close(self) -> None:
        self._consumer.close()

    def find(self) -> TableLag:
        """Return the present lag of bronze."""
        topic = self._settings.topic
        places = {
            each.partition(): self._place(each.partition())
            for each in self._consumer.partitionsFor(topic)
        }
        begins = self._offsets(self._consumer.beginningOffsets(self._list(places.values())))
        ends = self._offsets(self._consumer.endOffsets(self._list(places.values())))
        read = self._read(begins, ends)
        unread = {
            number: max(read.get(number, begins[number]), begins[number]) for number in places
        }
        lacking = {number: first for number, first in unread.items() if first < ends[number]}
        records = sum(ends[number] - first for number, first in lacking.items())
        return TableLag(
            records, self._oldest({places[number]: first for number, first in lacking.items()})
        )

    def _read(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """Return the first offset of each partition that no batch has read, if known."""
        text = last_done(self._spark, self._settings, "bronze")
        if text is not None:
            found = json.loads(text).get(self._settings.topic, {})
            return {int(number): offset for number, offset in found.items()}
        start = self._settings.starting_offsets
        if start in ("earliest", "latest"):
            return dict(begins if start == "earliest" else ends)
        words = {_EARLIEST: begins, _LATEST: ends}
        told = {
            int(number): int(offset)
            for number, offset in json.loads(start)[self._settings.topic].items()
        }
        return {
            number: words[offset][number] if offset in words else offset
            for number, offset in told.items()
        }

    def _oldest(self, lacking: Mapping[Any, int]) -> float | None:
        """Return the lowest Kafka timestamp of each partition's first missing record."""
        self._consumer.assign(self._list(lacking))
        for place, first in lacking.items():
            self._consumer.seek(place, first)
        times: dict[int, float | None] = {}
        empty = 0
        while len(times) < len(lacking) and empty < _MOST_EMPTY:
            found = list(
                self._consumer.poll(self._jvm.java.time.Duration.ofMillis(_WAIT_MILLIS)).iterator()
            )
            empty += not found
            for record in found:
                # Kafka writes -1 for a record without a timestamp.
                at = record.timestamp()
                times[record.partition()] = at / 1000 if at >= 0 else None
            self._consumer.pause(self._list(self._place(record.partition()) for record in found))
        return min((at for at in times.values() if at is not None), default=None)

    def _place(self, partition: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(self._settings.topic, partition)

    def _list(self, items: Iterable[Any]) -> Any:
        found: Any = self._jvm.java.util.ArrayList()
        for each in items:
            found.add(each)
        return found

    def _offsets(self, found: Any) -> dict[int, int]:
        return {place.partition(): int(found[place]) for place in found}
