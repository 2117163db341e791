"""Stores the offsets of one spout task in two steps. First the finished range below an offset is
written to the topic `<topology>.__finished`. Once Kafka has it, the offset is stored.

So every offset below a stored one is in a range, including the offsets that were skipped.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kstorm.errors import BrokerError, FencedError, KstormError
from kstorm.kafka.completed_ranges import Run
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.finished_ranges import ACKED, CLAIMED, COMMITTED, FinishedRange
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import (
    UNKNOWN_BROKER,
    Broker,
    OffsetStore,
    Partition,
    RecordWriter,
    SourceReader,
)
from kstorm.topology import Topology, TopologyContext
from kstorm.topology.event_time import NEVER

log = logging.getLogger(__name__)

Written = Callable[[bool], None]
"""Called once per range, with True if the broker has it."""

_NOT_STORED: Final = (
    "until it does, offsets are not stored, so a restart repeats the messages processed now"
)


class _Write(Struct, eq=False):
    """A manager's range that is being written to Kafka. It exists until the broker responds, or
    until the manager is dropped."""

    offset: int
    """The offset to store once Kafka has the range."""
    again: bool = False
    """True if a later offset is to be stored next."""
    then: Callable[[], None] | None = None
    """Called when none of the manager's ranges is being written any more."""


class OffsetCommitter:
    """Commits the offsets of one spout task to the store."""

    def __init__(
        self,
        offsets: OffsetStore,
        source: SourceReader,
        writer: RecordWriter,
        config: SpoutConfig,
        context: TopologyContext,
        topology: TopologyRef,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`writer` belongs to the task."""
        self.leaders: Mapping[Partition, Broker] = {}
        """The leaders as of the last look-up."""
        self._offsets, self._source, self._topology = offsets, source, topology
        self._writer, self._config, self._clock = writer, config, clock
        self._spout, self._task = context.component, context.task_id
        self._topic = context.topology.finished_topic
        self._session = uuid.uuid4().hex
        self._keeps_above = stores_ranges_above(config, context.topology)
        self._problem: KstormError | None = None
        self._writes: dict[PartitionManager, _Write] = {}

    # Offsets.

    def commit(self, manager: PartitionManager) -> None:
        """Write the finished range to Kafka. Once acknowledged, store the offset.

        There is at most one write per partition at a time. A later offset is committed after it.
        """
        if (write := self._writes.get(manager)) is not None:
            write.again = True
            return
        manager.outcomes.begin(manager.next_offset, self.now())
        offset = manager.commit()
        if offset is None:
            self._save_above(manager)
            return
        finished = manager.outcomes.until(offset)
        # The manager gave back claimed offsets, so there is no finished range.
        if finished is None:
            self._save(manager, offset)
            return
        write = self._writes[manager] = _Write(offset)
        self.write_range(manager.partition, finished, partial(self._written, manager, write))

    def _written(self, manager: PartitionManager, write: _Write, written: bool) -> None:
        if self._writes.get(manager) is not write:  # the manager was dropped in the meantime
            return
        del self._writes[manager]
        if written:
            manager.outcomes.confirmed(write.offset)
            self._save(manager, write.offset)
        else:
            # The next range includes this one.
            manager.committed_to = manager.outcomes.start
        if write.again and (written or write.then is not None):
            self.commit(manager)
        if write.then is not None:
            self.when_written(manager, write.then)

    def is_writing(self, manager: PartitionManager) -> bool:
        """Return True while a range is being written."""
        return manager in self._writes

    def when_written(self, manager: PartitionManager, act: Callable[[], None]) -> None:
        """Call `act` as soon as no range of the manager is being written, or immediately if none
        is."""
        if (write := self._writes.get(manager)) is not None:
            write.then = act
        else:
            act()

    def drop(self, manager: PartitionManager) -> None:
        """Stop storing offsets of a manager, regardless of later reports, because its partition is
        taken over or started again."""
        self._writes.pop(manager, None)

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
        reached = NEVER if manager.times is None else manager.times.before(offset)
        self.save(manager.partition, offset, done, reached)

    def save(
        self, partition: Partition, offset: int, done: Sequence[Run] = (), reached: int = NEVER
    ) -> None:
        """Pass an offset to the store, with the finished runs above it and the latest event time
        before it."""
        leader = self.leaders.get(partition, UNKNOWN_BROKER)
        try:
            self._offsets.save(
                partition,
                StoredOffset.of(
                    self._topology,
                    partition,
                    offset,
                    leader,
                    done,
                    None if reached == NEVER else reached,
                ),
            )
        except FencedError as error:
            log.warning("%s", error)  # the next tick drops the partition
        else:
            self._source.commit(partition, offset)

    # Ranges.

    def now(self) -> int:
        """Return the Unix time in ms."""
        return int(self._clock() * 1000)

    def write_range(self, partition: Partition, finished: FinishedRange, written: Written) -> None:
        """Write a range. `written` is called later, or immediately if the record cannot be queued."""
        record = replace(
            finished,
            reading=self._config.zk_path_of(partition.topic),
            spout=self._spout,
            task=self._task,
            session=self._session,
            topic=partition.topic,
            partition=partition.partition,
            at=self.now(),
        )
        try:
            self._writer.write(
                self._topic, record.key, record.encode(), partial(self._reported, written)
            )
        except BrokerError as error:
            self._reported(written, error, None)

    def _reported(self, written: Written, error: object | None, record: object) -> None:
        self._problem = None
        if error is not None:
            self._problem = BrokerError(
                f"topic {self._topic!r} does not accept a record: {error}; {_NOT_STORED}"
            )
        written(error is None)

    def problem(self) -> KstormError | None:
        """The reason why the last range was rejected, or None if it was not."""
        return self._problem

    async def close(self) -> None:
        """Wait at most a few seconds for pending ranges, and for ranges that their callbacks write."""
        await self._writer.close()


def stores_ranges_above(config: SpoutConfig, topology: Topology) -> bool:
    """Return True if the runs above an offset are stored with it.

    With exactly-once processing, the position in Kafka replaces them.
    """
    return (
        config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        and not topology.config.exactly_once
    )


def default_outcome(config: SpoutConfig, topology: Topology) -> str:
    """Return the outcome of finished messages without an exception, if it is known in advance."""
    if config.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        return CLAIMED
    if topology.config.acker_tasks:
        return ACKED
    return COMMITTED if topology.config.exactly_once else CLAIMED
