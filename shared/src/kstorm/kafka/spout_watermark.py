"""The watermark of a KafkaSpout task: the lowest of its partitions.

A partition's watermark is the latest event time before an offset below which no message is emitted
again:

- With exactly-once processing, it is the next offset to emit. It is committed with the watermark.
- With at-least-once processing, it is the stored offset. Whatever comes after it may be emitted
  again after a failure or a crash.
- With `AT_MOST_ONCE`, it is the next offset to emit.

The latest event time before an offset is stored with it. So a partition that gets no new messages
does not lose its watermark when its task moves.
"""

from collections.abc import Callable, Iterable

from kstorm.core.watermarks import Idleness
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import OffsetStore, Partition, SourceReader
from kstorm.topology import TopologyContext
from kstorm.topology.event_time import UNKNOWN, EventTime, Latest, Mark, TimePlan, lowest


class SpoutWatermark:
    """Computes the watermark of one task."""

    def __init__(
        self,
        time: EventTime,
        latest: Latest,
        offsets: OffsetStore,
        source: SourceReader,
        *,
        repeats: bool,
    ) -> None:
        """`latest` computes the event time of tuples. `repeats`: messages after the stored offset
        may be emitted again."""
        self._time, self._offsets, self._source = time, offsets, source
        self.latest = latest
        self._repeats = repeats
        self._idle: dict[Partition, Idleness] = {}
        self.marks: dict[Partition, Mark] = {}
        """The watermark of each partition, as of the last `mark`."""

    def holders(self) -> list[tuple[str, Mark]]:
        """Return the partitions by name, each with its watermark."""
        return [(str(place), mark) for place, mark in self.marks.items()]

    def mark(
        self,
        assigned: Iterable[tuple[Partition, PartitionManager | None]] | None,
        now: float,
        reads: Callable[[], bool],
    ) -> Mark:
        """Return the task's watermark. It is idle if all partitions are, or if it has none.

        `assigned` are its partitions, or None while they are unknown. `reads` returns True if new
        messages would be read now.
        """
        if assigned is None:
            return UNKNOWN
        self.marks = {
            partition: UNKNOWN if manager is None else self._of(partition, manager, now, reads)
            for partition, manager in assigned
        }
        for gone in self._idle.keys() - self.marks.keys():
            del self._idle[gone]
        return lowest(self.marks.values())

    def _of(
        self, partition: Partition, manager: PartitionManager, now: float, reads: Callable[[], bool]
    ) -> Mark:
        bound: int | None = manager.next_offset
        if self._repeats:
            bound = self._offsets.stored_offset(partition)
        idleness = self._idle.setdefault(partition, Idleness(self._time.idle_ms))
        if manager.times is None or bound is None:
            return UNKNOWN
        manager.times.forget(min(bound, manager.committed_to or 0))
        end = self._source.end_offset(partition)
        empty = (
            not manager.waiting
            and not manager.pending
            and end is not None
            and bound >= manager.next_offset >= end
        )
        idle = idleness.look(now, empty and reads())
        return Mark(manager.times.before(bound), idle)


def spout_watermark(
    config: SpoutConfig, context: TopologyContext, offsets: OffsetStore, source: SourceReader
) -> SpoutWatermark | None:
    """Return the watermark of a spout task, if its topology uses event time."""
    time = TimePlan(context.topology).spouts.get(context.component)
    if time is None:
        return None
    stream = config.output_stream_id
    fields = context.get_component_output_fields(context.component, stream)
    latest = time.latest(context.component, stream, context.task_id, fields)
    repeats = (
        not context.topology.config.exactly_once
        and config.processing_guarantee is not ProcessingGuarantee.AT_MOST_ONCE
    )
    return SpoutWatermark(time, latest, offsets, source, repeats=repeats)
