"""Decides what partitions and offsets a spout task reads (Storm's `PartitionCoordinator`).

At every tick the coordinator:

- detects partitions that were added or removed,
- starts the partitions that belong to this task and whose lock it holds,
- stops partitions that another process has taken over,
- moves a partition to an available offset if the broker does not have its offset any more.

A partition that stays with this task keeps its manager, so a refresh does not cause any message to
be read twice. `ZkCoordinator` and `StaticCoordinator` differ in the times at which they look for
partitions.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange, moved_range
from kstorm.kafka.offset_committer import OffsetCommitter, default_outcome
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_assignment import (
    calculate_partitions_for_task,
    calculate_partitions_of_topics_for_task,
)
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.partition_times import PartitionTimes
from kstorm.kafka.ports import Broker, OffsetStore, Ownership, Partition, SourceFault, SourceReader
from kstorm.kafka.start_offset import StartOffsets
from kstorm.topology import SpoutOutputCollector, TopologyContext
from kstorm.topology.event_time import Latest

log = logging.getLogger(__name__)

_UNKNOWN_TOPIC_REFRESH_SECS = 2.0
_FAULT_REFRESH_SECS = 1.0
_REFUSED_REST_SECS = 1.0
# A persistent fault is reported again every 30 s.
_FAULT_LASTS_SECS = 60.0
_HELD, _FENCED = Ownership.HELD, Ownership.FENCED


@dataclass(slots=True)
class _AssignedPartition:
    """A partition that is assigned to this task."""

    partition: Partition
    late: bool = False
    """True if it was found after this task's first look-up. In this case its existing messages must
    not be skipped."""
    manager: PartitionManager | None = None
    """None until the partition is started."""
    begin: int | None = None
    """The offset to start at as soon as it is stored."""
    out_of_range: bool = False
    """True if the broker did not have the offset to read from."""
    rest_until: float = 0.0
    """No further attempt before this time."""


class PartitionCoordinator:
    """Owns the `PartitionManager`s of one spout task."""

    looks_again: ClassVar[bool]
    """True if partitions may be added, removed or moved to another leader."""

    def __init__(
        self,
        config: SpoutConfig,
        context: TopologyContext,
        collector: SpoutOutputCollector,
        source: SourceReader,
        offsets: OffsetStore,
        topology: TopologyRef,
        storing: OffsetCommitter,
        latest: Latest | None = None,
    ) -> None:
        """`latest` computes the event time of tuples, if it is used."""
        self._latest = latest
        self.managers: list[PartitionManager] = []
        """The managers that may emit, as of the last tick."""
        self._config = config
        self._context = context
        self._collector = collector
        self._source = source
        self._offsets = offsets
        self._starts = StartOffsets(config, source, offsets, topology)
        self._storing = storing
        self._rest = default_outcome(config, context.topology)
        self._slots: dict[Partition, _AssignedPartition] = {}
        # These partitions keep their lock until their last range is written.
        self._leaving: dict[Partition, _AssignedPartition] = {}
        self._now = 0.0
        self._known: Mapping[Partition, Broker] = {}
        self._looked = False
        self._next_look = -inf
        # The latest fault per partition, with its time.
        self._heard: dict[Partition | None, tuple[str, float]] = {}
        self._epochs = 0

    def tick(self, now: float) -> None:
        """Update `managers`."""
        self._now = now
        self._look(now)
        self._take_notice()
        running = []
        for slot in self._slots.values():
            if slot.partition in self._leaving:
                continue
            ownership = self._offsets.acquire(slot.partition)
            if ownership is _HELD:
                if slot.manager is None:
                    self._start(slot, now)
                elif slot.out_of_range:
                    self._start_over(slot, slot.manager, now)
                if slot.manager is not None:
                    running.append(slot.manager)
            elif ownership is _FENCED:
                self._drop(slot, "another process has taken it over")
        self.managers = running
        for fault in self._source.faults():
            self._note(fault, now)

    def manager(self, partition: Partition) -> PartitionManager | None:
        """Return a partition's manager, if any, even if it may not emit now."""
        slot = self._slots.get(partition)
        return None if slot is None else slot.manager

    def all_managers(self) -> Iterator[PartitionManager]:
        """Iterate over all managers, including those that may not emit at the moment."""
        return (slot.manager for slot in self._slots.values() if slot.manager is not None)

    def assigned(self) -> list[tuple[Partition, PartitionManager | None]] | None:
        """Return this task's partitions with their managers, or None while they are unknown.

        A manager is None until its partition is started.
        """
        if not self._known:
            return None
        return [(place, slot.manager) for place, slot in self._slots.items()]

    @property
    def is_settled(self) -> bool:
        """True if each of this task's partitions is being read."""
        return bool(self._known) and len(self.managers) == len(self._slots)

    def unread(self, now: float) -> str:
        """Return why Kafka could not be read during the last minute, or ""."""
        faults = [
            reason for reason, heard in self._heard.values() if now - heard < _FAULT_LASTS_SECS
        ]
        if not faults and self._looked and not self._known:
            return f"there is no topic {self._config.topic!r} to read"
        return "; ".join(dict.fromkeys(faults))

    def claim(self) -> None:
        """With `AT_MOST_ONCE`: let managers emit up to the stored offset and store the next."""
        for manager in self.managers:
            manager.grant(self._offsets.stored_offset(manager.partition))
            self._storing.commit(manager)

    def commit(self) -> None:
        """Pass every changed offset to the store, once the range below it is in Kafka."""
        for manager in self.all_managers():
            self._storing.commit(manager)

    def close(self) -> None:
        """Stop reading and release all partitions after storing their progress.

        A partition whose last range is not in Kafka yet keeps its lock until it is, or until
        `abandon`.
        """
        for slot in self._slots.values():
            self._leave(slot, None)
        self._slots.clear()
        self.managers = []

    def abandon(self) -> None:
        """Release partitions that still wait for Kafka. The next owner repeats their last range."""
        for slot in list(self._leaving.values()):
            self._drop(slot, "its last finished range was not written to Kafka")
        self._leaving.clear()

    def _look(self, now: float) -> None:
        if now >= self._next_look:
            self._source.refresh(self._config.topic)
            often = self._config.hosts.refresh_freq_secs
            wait = often if self._known else _UNKNOWN_TOPIC_REFRESH_SECS
            self._next_look = now + wait if self.looks_again else inf

    def _take_notice(self) -> None:
        known = self._source.partitions(self._config.topic)
        if known is None or known is self._known:
            return
        late, self._looked = self._looked, True
        changed = not late or list(known) != list(self._known)
        self._heard.pop(None, None)
        self._known = self._storing.leaders = known
        if changed:
            self._reassign(list(known), late)

    def _reassign(self, partitions: list[Partition], late: bool) -> None:
        total, index = self._context.total_tasks, self._context.task_index
        if self._config.kafka_topic_wildcard_match:
            # Reading the topics that this topology writes would never end.
            topology = self._context.topology
            ours = topology.topics().keys() | topology.changelogs().keys()
            partitions = [partition for partition in partitions if partition.topic not in ours]
            mine = calculate_partitions_of_topics_for_task(partitions, total, index)
        else:
            mine = calculate_partitions_for_task(partitions, total, index)
        log.info("task %d of %d reads %s", index + 1, total, ", ".join(map(str, mine)) or "nothing")
        for partition in [held for held in self._slots if held not in mine]:
            self._leave(self._slots[partition], "the topic no longer has it")
            del self._slots[partition]
        for partition in mine:
            self._slots.setdefault(partition, _AssignedPartition(partition, late))

    def _start(self, slot: _AssignedPartition, now: float) -> None:
        if now < slot.rest_until:
            return
        partition = slot.partition
        try:
            stored = self._starts.stored(partition)
        except ConfigError as error:
            self._collector.report_error(error)
            slot.rest_until = now + self._config.hosts.refresh_freq_secs
            return
        is_chosen = slot.begin is not None
        offset = (
            slot.begin if is_chosen else self._starts.resume_at(partition, stored, late=slot.late)
        )
        if offset is None:
            return
        # A stored `group` comes from an exactly-once run. Storing the offset again removes the
        # group, so that the offset takes precedence from then on.
        if stored is not None and stored.offset == offset and not stored.group:
            if not is_chosen:
                log.info("%s continues at offset %d", partition, offset)
            self._read(slot, offset, stored)
        elif not is_chosen:
            there = stored.offset if stored else "none"
            log.info("%s starts at offset %d, stored: %s", partition, offset, there)
            self._begin(slot, offset, self._starts.skipped(partition, stored, offset))

    def _begin(self, slot: _AssignedPartition, offset: int, skipped: FinishedRange | None) -> None:
        """Store a new start offset, after the record of the range that it skips.

        Nothing is emitted before the offset is stored. Otherwise the partition might start
        elsewhere after a crash and skip messages that were emitted but not finished. Later ticks
        check if it is stored.
        """
        slot.begin = offset
        if skipped is None:
            self._storing.save(slot.partition, offset)
        else:
            self._storing.write_range(slot.partition, skipped, partial(self._begun, slot, offset))

    def _begun(self, slot: _AssignedPartition, offset: int, written: bool) -> None:
        if self._slots.get(slot.partition) is not slot or slot.begin != offset:
            return
        if written:
            self._storing.save(slot.partition, offset)
        else:
            slot.begin, slot.rest_until = None, self._now + _REFUSED_REST_SECS

    def _start_over(self, slot: _AssignedPartition, manager: PartitionManager, now: float) -> None:
        """Choose a new offset if the broker no longer has the one to read next."""
        if not self._config.use_start_offset_time_if_offset_out_of_range:
            if now >= slot.rest_until:
                slot.out_of_range = False
                self._assign(manager, manager.next_offset)
            return
        offset = self._starts.current(slot.partition, late=slot.late)
        if offset is None:
            return
        slot.out_of_range = False
        ahead = offset >= manager.next_offset
        if ahead:
            why = f"the broker no longer has offset {manager.next_offset}"
            manager.outcomes.skip(manager.read_to, offset, why)
        else:
            why = (
                f"the log ends before {manager.next_offset}, so it is not the one that was read; "
                f"{manager.pending} messages in flight are dropped"
            )
        if ahead and (manager.pending or manager.waiting):
            # The messages in between are lost. This manager still finishes the messages in flight.
            log.warning("%s continues at offset %d: %s", slot.partition, offset, why)
            self._assign(manager, offset)
            return
        log.warning("%s starts again at offset %d: %s", slot.partition, offset, why)
        self._source.unassign(slot.partition)
        self._storing.drop(manager)
        slot.manager, slot.rest_until = None, 0.0
        outcomes = manager.outcomes
        moved = outcomes.until(offset) if ahead else moved_range(outcomes.start, offset, why)
        self._begin(slot, offset, moved)

    def _read(self, slot: _AssignedPartition, offset: int, found: StoredOffset) -> None:
        """Start reading at a stored offset, without emitting its `done` offsets again.

        With exactly-once processing, `offset` is the committed position, and the stored offset
        follows it.
        """
        self._epochs += 1
        slot.begin = None
        stored = min(offset, self._offsets.stored_offset(slot.partition) or 0)
        slot.manager = PartitionManager(
            slot.partition,
            self._config,
            self._collector,
            offset=offset,
            stored=stored,
            done=found.done,
            epoch=self._epochs,
            rest=self._rest,
            unix_ms=self._storing.now(),
            times=self._latest and PartitionTimes(self._latest, found.reached),
        )
        self._assign(slot.manager, offset)

    def _assign(self, manager: PartitionManager, offset: int) -> None:
        self._source.assign(manager.partition, offset)
        manager.paused = False

    def _leave(self, slot: _AssignedPartition, why: str | None) -> None:
        """Release a partition voluntarily, with its progress stored for the next owner."""
        manager = slot.manager
        if manager is not None:
            manager.give_back()
            self._storing.commit(manager)
            if self._storing.is_writing(manager):
                self._source.unassign(slot.partition)
                self._leaving[slot.partition] = slot
                self._storing.when_written(manager, partial(self._left, slot))
                return
        self._drop(slot, why)

    def _left(self, slot: _AssignedPartition) -> None:
        del self._leaving[slot.partition]
        self._drop(slot, None)

    def _drop(self, slot: _AssignedPartition, why: str | None) -> None:
        if slot.manager is not None:
            if why:
                pending = slot.manager.pending
                log.warning(
                    "%s is dropped with %d messages in flight: %s", slot.partition, pending, why
                )
            self._storing.drop(slot.manager)
            slot.manager = None
        slot.begin = None
        slot.out_of_range = False
        self._source.unassign(slot.partition)
        self._offsets.release(slot.partition)

    def _note(self, fault: SourceFault, now: float) -> None:
        self._collector.report_error(BrokerError(fault.reason))
        if self.looks_again:
            self._next_look = min(self._next_look, now + _FAULT_REFRESH_SECS)
        slot = self._slots.get(fault.partition) if fault.partition else None
        if slot is not None and slot.manager is not None and fault.undecodable is not None:
            self._assign(slot.manager, slot.manager.pass_over(*fault.undecodable, fault.reason))
        starts_over = self._config.use_start_offset_time_if_offset_out_of_range
        # In all other cases the spout continues to read.
        if fault.undecodable is None and not (fault.out_of_range and starts_over):
            self._heard[fault.partition] = fault.reason, now
        if slot is not None and fault.out_of_range:
            slot.out_of_range = True
            slot.rest_until = now + self._config.hosts.refresh_freq_secs


class ZkCoordinator(PartitionCoordinator):
    """Looks for partitions every `hosts.refresh_freq_secs`, and within 1 s of a failed fetch.

    The name is Storm's. The `hosts` determine whether it queries ZooKeeper or Kafka.
    """

    looks_again = True


class StaticCoordinator(PartitionCoordinator):
    """Takes the partitions listed in `StaticHosts`, once."""

    looks_again = False
