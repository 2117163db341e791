"""Emits from a partition as `KafkaSpout` does, one message at a time."""

from typing import Any

from kstorm.kafka import PartitionManager
from kstorm.kafka.emitting import emit_rows
from kstorm.topology import SpoutOutputCollector


def emit_next(manager: PartitionManager, collector: SpoutOutputCollector, now: float = 0.0) -> bool:
    """Emits a message whose retry is due, or the next read one. Returns True if it emitted any."""
    if manager.failures.waiting and manager.retry(now):
        return True
    rows: list[Any] = []
    ids: list[Any] = []
    if not manager.take(now, 1, 1, rows, ids):
        return False
    emit_rows(
        collector, rows, ids, manager._stream, tracked=manager._tracks, refuse=manager.refused
    )
    if not manager._tracks:
        for id in ids:
            manager.ack(id)
    return True
