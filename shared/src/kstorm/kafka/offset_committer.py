"""Stores offsets, each after the range below it is in Kafka, including ranges that are skipped."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from kstorm.errors import FencedError
from kstorm.kafka.completed_ranges import Run
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.finished_ranges import ACKED, CLAIMED, COMMITTED, FinishedRange, moved_range
from kstorm.kafka.finished_topic import FinishedTopic
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import UNKNOWN_BROKER, Broker, OffsetStore, Partition, SourceReader
from kstorm.topology import Topology

log = logging.getLogger(__name__)


class OffsetCommitter:
    """Commits the offsets of one spout task to the store."""

    def __init__(
        self,
        offsets: OffsetStore,
        source: SourceReader,
        finished: FinishedTopic,
        topology: TopologyRef,
        *,
        keeps_above: bool,
    ) -> None:
        """`keeps_above`: store the finished runs above an offset with it."""
        self.finished = finished
        self.leaders: Mapping[Partition, Broker] = {}
        """The leaders as of the last look-up."""
        self._offsets, self._source, self._topology = offsets, source, topology
        self._keeps_above = keeps_above

    def commit(self, manager: PartitionManager) -> None:
        """Write the finished range to Kafka. Once acknowledged, store the offset.

        One write per partition at a time. A later offset is committed afterwards.
        """
        if manager.writing:
            manager.write_again = True
            return
        manager.outcomes.begin(manager.next_offset, self.finished.now())
        offset = manager.commit()
        if offset is None:
            self._save_above(manager)
            return
        finished = manager.outcomes.until(offset)
        # The manager gave back claimed offsets, so no range is finished.
        if finished is None:
            self._save(manager, offset)
            return
        manager.writing = True
        self.finished.write(manager.partition, finished, partial(self._written, manager, offset))

    def _written(self, manager: PartitionManager, offset: int, written: bool) -> None:
        manager.writing = False
        again, manager.write_again = manager.write_again, False
        if manager.dropped:
            return
        if written:
            manager.outcomes.confirmed(offset)
            self._save(manager, offset)
        else:
            # The next range includes this one.
            manager.committed_to = manager.outcomes.start
        leaving = manager.on_written
        if again and (written or leaving is not None):
            self.commit(manager)
        if leaving is not None and not manager.writing:
            leaving()

    def _save_above(self, manager: PartitionManager) -> None:
        """Store the runs above the offset if only they have changed."""
        offset = manager.committed_to
        if (
            offset is not None
            and self._keeps_above
            and (done := manager.done_above(offset)) != manager.stored_above
        ):
            self._save(manager, offset, done)

    def _save(self, manager: PartitionManager, offset: int, done: list[Run] | None = None) -> None:
        """Store the offset and the finished runs above it (`done`, if already known)."""
        if done is None:
            done = manager.done_above(offset) if self._keeps_above else manager.left_above(offset)
        manager.stored_above = done
        self.save(manager.partition, offset, done)

    def save(self, partition: Partition, offset: int, done: Sequence[Run] = ()) -> None:
        """Pass an offset to the store, with the finished runs above it."""
        leader = self.leaders.get(partition, UNKNOWN_BROKER)
        try:
            self._offsets.save(
                partition, StoredOffset.of(self._topology, partition, offset, leader, done)
            )
        except FencedError as error:
            log.warning("%s", error)  # the next tick drops the partition
        else:
            self._source.commit(partition, offset)


def stores_ranges_above(config: SpoutConfig, topology: Topology) -> bool:
    """Return True if the runs above an offset are stored with it.

    With exactly-once processing, the position in Kafka replaces them.
    """
    return (
        config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        and not topology.config.exactly_once
    )


def default_outcome(config: SpoutConfig, topology: Topology) -> str:
    """Return the outcome of finished messages without an exception, as far as known."""
    if config.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        return CLAIMED
    if topology.config.acker_tasks:
        return ACKED
    return COMMITTED if topology.config.exactly_once else CLAIMED


def skipped_range(
    config: SpoutConfig, before: int | None, found: StoredOffset | None, offset: int
) -> FinishedRange | None:
    """Return the range that is skipped by starting a partition at `offset`.

    `before` is the stored offset. `found` is the one that the spout resumes from, which is its
    position with exactly-once processing.
    """
    start = f"the offset of start_offset_time={config.start_offset_time}"
    if found is not None:
        why = f"more than max_offset_behind={config.max_offset_behind} behind {start}"
    elif before is not None:
        why = (
            "another deployment's offset is ignored (ignore_zk_offsets), so the partition is read "
            f"from {start}"
        )
    else:
        why = f"nothing was stored, so the partition is read from {start}"
    return moved_range(before or 0, offset, why, position=0 if found is None else found.offset)
