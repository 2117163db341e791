"""Has offsets stored, each after the range below it is in Kafka; what is passed over is in a range, too."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from kstorm.errors import FencedError
from kstorm.kafka.above import Run
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.finished import ACKED, CLAIMED, COMMITTED, FinishedRange, moved
from kstorm.kafka.finished_topic import FinishedTopic
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import UNKNOWN_BROKER, Broker, OffsetStore, Partition, SourceReader
from kstorm.topology import Topology

log = logging.getLogger(__name__)


class Storing:
    """The way of one spout task's offsets into the store."""

    def __init__(
        self,
        offsets: OffsetStore,
        source: SourceReader,
        finished: FinishedTopic,
        topology: TopologyRef,
        *,
        keeps_above: bool,
    ) -> None:
        """`keeps_above`: whether what is done above an offset is stored with it."""
        self.finished = finished
        """Where the ranges go."""
        self.leaders: Mapping[Partition, Broker] = {}
        """As last looked up."""
        self._offsets, self._source, self._topology = offsets, source, topology
        self._keeps_above = keeps_above

    def commit(self, manager: PartitionManager) -> None:
        """If the manager has an offset to store: has the range below it written, and when it is in Kafka the offset stored. One
        at a time; what is to be stored meanwhile follows."""
        if manager.writing:
            manager.write_again = True
            return
        manager.outcomes.begin(manager.next_offset, self.finished.now())
        offset = manager.commit()
        if offset is None:
            self._save_above(manager)
            return
        finished = manager.outcomes.until(offset)
        if finished is None:  # what was claimed is given back
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
        else:  # the next range has this one in it
            manager.committed_to = manager.outcomes.start
        leaving = manager.on_written
        if again and (written or leaving is not None):
            self.commit(manager)
        if leaving is not None and not manager.writing:
            leaving()

    def _save_above(self, manager: PartitionManager) -> None:
        """The offset has not moved; perhaps what is done above it has."""
        offset = manager.committed_to
        if (
            offset is not None
            and self._keeps_above
            and (done := manager.done_above(offset)) != manager.stored_above
        ):
            self._save(manager, offset, done)

    def _save(self, manager: PartitionManager, offset: int, done: list[Run] | None = None) -> None:
        """`done`: what is done above the offset, if that is known already."""
        if done is None:
            done = manager.done_above(offset) if self._keeps_above else manager.left_above(offset)
        manager.stored_above = done
        self.save(manager.partition, offset, done)

    def save(self, partition: Partition, offset: int, done: Sequence[Run] = ()) -> None:
        """Gives an offset to the store, with what is done above it."""
        leader = self.leaders.get(partition, UNKNOWN_BROKER)
        try:
            self._offsets.save(
                partition, StoredOffset.of(self._topology, partition, offset, leader, done)
            )
        except FencedError as error:
            log.warning("%s", error)  # the next tick drops it
        else:
            self._source.commit(partition, offset)


def is_kept_above(config: SpoutConfig, topology: Topology) -> bool:
    """Whether offsets are stored with what is done above them. Exactly once, a position in Kafka says it."""
    return (
        config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        and not topology.config.exactly_once
    )


def said_of_the_rest(config: SpoutConfig, topology: Topology) -> str:
    """What becomes of a message that is finished and no exception, as far as the spout knows."""
    if config.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        return CLAIMED
    if topology.config.acker_tasks:
        return ACKED
    return COMMITTED if topology.config.exactly_once else CLAIMED


def passed_over(
    config: SpoutConfig, before: int | None, found: StoredOffset | None, offset: int
) -> FinishedRange | None:
    """What lies between where a partition stood and the `offset` at which it is to start. `before` is what is stored, `found` what
    the spout takes of that for its own, which exactly once is its position."""
    start = f"where start_offset_time={config.start_offset_time} is"
    if found is not None:
        why = f"more than max_offset_behind={config.max_offset_behind} behind {start}"
    elif before is not None:
        why = f"another deployment's offset is ignored (ignore_zk_offsets), so the partition is read from {start}"
    else:
        why = f"nothing was stored, so the partition is read from {start}"
    return moved(before or 0, offset, why, position=0 if found is None else found.offset)
