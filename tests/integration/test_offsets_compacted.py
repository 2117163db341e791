"""An embedded Kafka keeps its group offsets small, because a starting broker reads all of them."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka

_PARTITIONS = 50
_COMMITS = 700  # 35,000 offsets, some 3.5 MB
_PATIENCE_SECS = 60.0
_SHORT = 1_500_000  # the active segment, and some more


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_old_offsets_are_compacted_away(tmp_path: Path) -> None:
    """The last offset of each partition stays."""
    with EmbeddedKafka(tmp_path, quick_start=True, heap="256m") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic("t", _PARTITIONS, 1)])["t"].result(30)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
        try:
            for offset in range(_COMMITS):
                places = [
                    TopicPartition("t", partition, offset) for partition in range(_PARTITIONS)
                ]
                consumer.commit(offsets=places, asynchronous=False)
            deadline = time.monotonic() + _PATIENCE_SECS
            while (size := _size(tmp_path)) > _SHORT:
                assert time.monotonic() < deadline, f"{size:,} bytes of offsets are still there"
                time.sleep(0.5)
            kept = consumer.committed(
                [TopicPartition("t", partition) for partition in range(_PARTITIONS)], 30
            )
            assert {place.offset for place in kept} == {_COMMITS - 1}
        finally:
            consumer.close()


def _size(directory: Path) -> int:
    return sum(log.stat().st_size for log in directory.glob("kafka/log/__consumer_offsets-*/*.log"))
