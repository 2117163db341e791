"""Which partitions a spout task reads right now, and from where (the seed's `ZkCoordinator`).

At every tick: look for new partitions when it is time; start what this task owns and whose lock it holds; stop what was
taken over; set a partition whose offset the broker no longer has onto one that it has. A partition that stays this
task's keeps its manager, so no message is read twice for a refresh.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kstorm.errors import BrokerError, ConfigError, FencedError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.partitions import calculate_partitions_for_task
from kstorm.kafka.ports import Broker, OffsetStore, Ownership, Partition, SourceFault, SourceReader
from kstorm.topology import SpoutOutputCollector, TopologyContext

log = logging.getLogger(__name__)

_UNKNOWN_TOPIC_REFRESH_SECS = 2.0
_FAULT_REFRESH_SECS = 1.0
_HELD, _FENCED = Ownership.HELD, Ownership.FENCED


@dataclass(slots=True)
class _Slot:
    """A partition that this task shall read."""

    partition: Partition
    manager: PartitionManager | None = None
    """None until it could be started."""
    out_of_range: bool = False
    """Whether the broker did not have the offset to read from."""
    rest_until: float = 0.0
    """Not to be tried again before this."""


class PartitionCoordinator:
    """Keeps the `PartitionManager`s of one spout task."""

    def __init__(
        self,
        config: SpoutConfig,
        context: TopologyContext,
        collector: SpoutOutputCollector,
        source: SourceReader,
        offsets: OffsetStore,
        topology: TopologyRef,
    ) -> None:
        self.managers: list[PartitionManager] = []
        """Those that may emit now; as of the last tick."""
        self._config = config
        self._context = context
        self._collector = collector
        self._source = source
        self._offsets = offsets
        self._topology = topology
        self._slots: dict[Partition, _Slot] = {}
        self._known: Mapping[Partition, Broker] = {}
        self._next_refresh = float("-inf")
        self._epochs = 0

    def tick(self, now: float) -> None:
        """Brings `managers` up to date."""
        self._refresh(now)
        running = []
        for slot in self._slots.values():
            ownership = self._offsets.acquire(slot.partition)
            if ownership is _HELD:
                if slot.manager is None:
                    self._start(slot, now)
                elif slot.out_of_range:
                    self._start_over(slot, now)
                if slot.manager is not None:
                    running.append(slot.manager)
            elif ownership is _FENCED:
                self._drop(slot, "another process has taken it over")
        self.managers = running
        for fault in self._source.faults():
            self._note(fault, now)

    def manager(self, partition: Partition) -> PartitionManager | None:
        """The manager of a partition, also of one that may not emit at the moment; None if this task has none."""
        slot = self._slots.get(partition)
        return None if slot is None else slot.manager

    def all_managers(self) -> Iterator[PartitionManager]:
        """Every manager, also those that may not emit at the moment."""
        return (slot.manager for slot in self._slots.values() if slot.manager is not None)

    def commit(self) -> None:
        """Gives every offset that changed to the store."""
        for manager in self.all_managers():
            offset = manager.commit()
            if offset is None:
                continue
            partition = manager.partition
            leader = self._known.get(partition, Broker("", -1))
            try:
                self._offsets.save(partition, StoredOffset.of(self._topology, partition, offset, leader))
            except FencedError as error:
                log.warning("%s", error)  # the next tick drops it
            else:
                self._source.commit(partition, offset)

    def close(self) -> None:
        """Stops reading and gives up every partition; what was committed before is still stored."""
        for slot in self._slots.values():
            self._drop(slot, None)
        self._slots.clear()
        self.managers = []

    def _refresh(self, now: float) -> None:
        if now >= self._next_refresh:
            self._source.refresh(self._config.topic)
            wait = self._config.hosts.refresh_freq_secs if self._known else _UNKNOWN_TOPIC_REFRESH_SECS
            self._next_refresh = now + wait
        known = self._source.partitions(self._config.topic)
        if known is None or known is self._known:
            return
        changed = list(known) != list(self._known)
        self._known = known
        if changed:
            self._reassign()

    def _reassign(self) -> None:
        total, index = self._context.total_tasks, self._context.task_index
        mine = calculate_partitions_for_task(list(self._known), total, index)
        log.info("task %d of %d reads %s", index + 1, total, ", ".join(map(_name, mine)) or "nothing")
        for partition in [held for held in self._slots if held not in mine]:
            self._drop(self._slots.pop(partition), "it is no longer this task's")
        for partition in mine:
            self._slots.setdefault(partition, _Slot(partition))

    def _start(self, slot: _Slot, now: float) -> None:
        if now < slot.rest_until:
            return
        partition = slot.partition
        try:
            stored = self._offsets.load(partition)
        except ConfigError as error:
            self._collector.report_error(error)
            slot.rest_until = now + self._config.hosts.refresh_freq_secs
            return
        offset = self._resume_at(partition, stored)
        if offset is None:
            return
        log.info("%s starts at offset %d, stored: %s", _name(partition), offset, stored.offset if stored else "none")
        self._read(slot, offset, stored.offset if stored else None)

    def _resume_at(self, partition: Partition, stored: StoredOffset | None) -> int | None:
        """Where to start; None while that is being looked up."""
        config = self._config
        if stored is None or (config.ignore_zk_offsets and stored.topology.id != self._topology.id):
            return self._source.offset_for(partition, config.start_offset_time)
        if config.max_offset_behind is None:
            return stored.offset
        start = self._source.offset_for(partition, config.start_offset_time)
        if start is None:
            return None
        return start if start - stored.offset > config.max_offset_behind else stored.offset

    def _start_over(self, slot: _Slot, now: float) -> None:
        """The broker does not have the offset that `slot` stands at."""
        manager = slot.manager
        if manager is None:
            return
        if not self._config.use_start_offset_time_if_offset_out_of_range:
            if now >= slot.rest_until:
                slot.out_of_range = False
                self._source.assign(slot.partition, manager.next_offset)
            return
        offset = self._source.offset_for(slot.partition, self._config.start_offset_time)
        if offset is None:
            return
        slot.out_of_range = False
        if offset >= manager.next_offset:
            # What lay between is gone. The messages in flight are still this manager's to finish.
            log.warning(
                "%s goes on at offset %d: the broker no longer has %d",
                _name(slot.partition),
                offset,
                manager.next_offset,
            )
            self._source.assign(slot.partition, offset)
            return
        log.warning(
            "%s starts again at offset %d: it ends before %d, so it is not the log that was read; %d messages in flight are let go",
            _name(slot.partition),
            offset,
            manager.next_offset,
            manager.pending,
        )
        self._read(slot, offset, manager.committed_to)

    def _read(self, slot: _Slot, offset: int, stored: int | None) -> None:
        self._epochs += 1
        slot.manager = PartitionManager(
            slot.partition, self._config, self._collector, offset=offset, stored=stored, epoch=self._epochs
        )
        self._source.assign(slot.partition, offset)

    def _drop(self, slot: _Slot, why: str | None) -> None:
        if slot.manager is not None:
            if why:
                log.warning(
                    "%s is dropped with %d messages in flight: %s", _name(slot.partition), slot.manager.pending, why
                )
            slot.manager = None
        slot.out_of_range = False
        self._source.unassign(slot.partition)
        self._offsets.release(slot.partition)

    def _note(self, fault: SourceFault, now: float) -> None:
        self._collector.report_error(BrokerError(fault.reason))
        self._next_refresh = min(self._next_refresh, now + _FAULT_REFRESH_SECS)
        slot = self._slots.get(fault.partition) if fault.partition else None
        if slot is not None and fault.out_of_range:
            slot.out_of_range = True
            slot.rest_until = now + self._config.hosts.refresh_freq_secs


def _name(partition: Partition) -> str:
    return f"{partition.topic}[{partition.partition}]"
