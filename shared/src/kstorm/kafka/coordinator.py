"""Which partitions a spout task reads right now, and from where (Storm's `PartitionCoordinator`).

At every tick: take notice of partitions that came or went; start what this task owns and whose lock it holds; stop what was
taken over; set a partition whose offset the broker no longer has onto one that it has. A partition that stays this
task's keeps its manager, so no message is read twice for a refresh. `ZkCoordinator` and `StaticCoordinator` differ in
when they look for partitions.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kstorm.errors import BrokerError, ConfigError
from kstorm.kafka.above import Run
from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, SpoutConfig
from kstorm.kafka.finished import FinishedRange, moved
from kstorm.kafka.finished_topic import FinishedTopic
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.partitions import (
    calculate_partitions_for_task,
    calculate_partitions_of_topics_for_task,
)
from kstorm.kafka.ports import (
    Broker,
    OffsetStore,
    Ownership,
    Partition,
    SourceFault,
    SourceReader,
)
from kstorm.kafka.storing import Storing, is_kept_above, passed_over, said_of_the_rest
from kstorm.topology import SpoutOutputCollector, TopologyContext

log = logging.getLogger(__name__)

_UNKNOWN_TOPIC_REFRESH_SECS = 2.0
_FAULT_REFRESH_SECS = 1.0
_REFUSED_REST_SECS = 1.0
_FAULT_LASTS_SECS = 60.0  # one that goes on is told anew every 30 s
_HELD, _FENCED = Ownership.HELD, Ownership.FENCED


@dataclass(slots=True)
class _Slot:
    """A partition that this task shall read."""

    partition: Partition
    late: bool = False
    """Whether it was not there when this task first looked: nobody can have meant to skip what it holds."""
    manager: PartitionManager | None = None
    """None until it could be started."""
    begin: int | None = None
    """Where it is to be started, once this is stored."""
    out_of_range: bool = False
    """Whether the broker did not have the offset to read from."""
    rest_until: float = 0.0
    """Not to be tried again before this."""


class PartitionCoordinator(ABC):
    """Keeps the `PartitionManager`s of one spout task."""

    def __init__(
        self,
        config: SpoutConfig,
        context: TopologyContext,
        collector: SpoutOutputCollector,
        source: SourceReader,
        offsets: OffsetStore,
        topology: TopologyRef,
        finished: FinishedTopic,
    ) -> None:
        self.managers: list[PartitionManager] = []
        """Those that may emit now; as of the last tick."""
        self._config = config
        self._context = context
        self._collector = collector
        self._source = source
        self._offsets = offsets
        self._topology = topology
        keeps_above = is_kept_above(config, context.topology)
        self._storing = Storing(offsets, source, finished, topology, keeps_above=keeps_above)
        self._rest = said_of_the_rest(config, context.topology)
        self._slots: dict[Partition, _Slot] = {}
        self._leaving: dict[
            Partition, _Slot
        ] = {}  # they keep their lock until their last range is written
        self._now = 0.0
        self._known: Mapping[Partition, Broker] = {}
        self._looked = False
        self._heard: dict[
            Partition | None, tuple[str, float]
        ] = {}  # the last fault of each, and when
        self._epochs = 0

    @abstractmethod
    def _look(self, now: float) -> None:
        """Has partitions looked for, if it is time."""

    @abstractmethod
    def _look_soon(self, now: float) -> None:
        """Reading failed; perhaps there are other partitions now, or other leaders."""

    def refresh(self) -> None:
        """Begins to look for partitions; a later `tick` takes notice of what was found."""
        self._source.refresh(self._config.topic)

    def tick(self, now: float) -> None:
        """Brings `managers` up to date."""
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

    def unread(self, now: float) -> str:
        """Why messages cannot be read, as Kafka said within the last minute; empty if they can."""
        faults = [
            reason for reason, heard in self._heard.values() if now - heard < _FAULT_LASTS_SECS
        ]
        if not faults and self._looked and not self._known:
            return f"there is no topic {self._config.topic!r} to read"
        return "; ".join(dict.fromkeys(faults))

    def claim(self) -> None:
        """With `AT_MOST_ONCE`: lets the managers emit what the store holds as done, and has it hold what they read since."""
        for manager in self.managers:
            manager.grant(self._offsets.stored_offset(manager.partition))
            self._storing.commit(manager)

    def commit(self) -> None:
        """Gives every offset that changed to the store, once the range below it is in Kafka."""
        for manager in self.all_managers():
            self._storing.commit(manager)

    def close(self) -> None:
        """Stops reading and gives up every partition; what is done is stored before. What Kafka has not confirmed by then keeps
        its lock until it has, or until `abandon`."""
        for slot in self._slots.values():
            self._leave(slot, None)
        self._slots.clear()
        self.managers = []

    def abandon(self) -> None:
        """Gives up the partitions that still wait for Kafka; the next owner does again what they were about to store."""
        for slot in list(self._leaving.values()):
            self._drop(slot, "its last range is not in Kafka")
        self._leaving.clear()

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
            topology = (
                self._context.topology
            )  # to read what this very topology writes would never end
            ours = topology.topics().keys() | topology.changelogs().keys()
            partitions = [partition for partition in partitions if partition.topic not in ours]
            mine = calculate_partitions_of_topics_for_task(partitions, total, index)
        else:
            mine = calculate_partitions_for_task(partitions, total, index)
        log.info(
            "task %d of %d reads %s", index + 1, total, ", ".join(map(_name, mine)) or "nothing"
        )
        for partition in [held for held in self._slots if held not in mine]:
            self._leave(self._slots[partition], "the topic no longer has it")
            del self._slots[partition]
        for partition in mine:
            self._slots.setdefault(partition, _Slot(partition, late))

    def _start(self, slot: _Slot, now: float) -> None:
        if now < slot.rest_until:
            return
        partition = slot.partition
        try:
            stored = self._resumable(self._offsets.load(partition))
        except ConfigError as error:
            self._collector.report_error(error)
            slot.rest_until = now + self._config.hosts.refresh_freq_secs
            return
        offset = self._resume_at(slot, stored) if slot.begin is None else slot.begin
        if offset is None:
            return
        if (
            stored is None or stored.offset != offset or stored.group
        ):  # a spout that was exact has left that it is not this that counts
            if slot.begin is None:
                log.info(
                    "%s starts at offset %d, stored: %s",
                    _name(partition),
                    offset,
                    stored.offset if stored else "none",
                )
                self._begin(
                    slot,
                    offset,
                    passed_over(
                        self._config, self._offsets.stored_offset(partition), stored, offset
                    ),
                )
            return
        if slot.begin is None:
            log.info("%s goes on at offset %d", _name(partition), offset)
        self._read(slot, offset, stored.done)

    def _resumable(self, stored: StoredOffset | None) -> StoredOffset | None:
        """What was stored, unless another deployment stored it and that is to be ignored. Then it counts as nothing: where
        this one starts is stored at once, even if it is the same offset, so that it is known again after a crash."""
        ignored = (
            self._config.ignore_zk_offsets
            and stored is not None
            and stored.topology.id != self._topology.id
        )
        return None if ignored else stored

    def _resume_at(self, slot: _Slot, stored: StoredOffset | None) -> int | None:
        """Where to start; None while that is being looked up."""
        behind = self._config.max_offset_behind
        if stored is None:
            return self._look_up_start(slot)
        if behind is None:
            return stored.offset
        start = self._look_up_start(slot)
        if start is None:
            return None
        return start if start - stored.offset > behind else stored.offset

    def _look_up_start(self, slot: _Slot) -> int | None:
        """Where `start_offset_time` is now. Of a partition that was found later, `LATEST_TIME` is the beginning: what was
        written before it was found was written while the spout was at work."""
        time = self._config.start_offset_time
        return self._source.offset_for(
            slot.partition, EARLIEST_TIME if slot.late and time == LATEST_TIME else time
        )

    def _begin(self, slot: _Slot, offset: int, skipped: FinishedRange | None) -> None:
        """Has a new start stored, and before that what is skipped by it. Nothing is emitted before it is stored: after a crash the
        partition would start elsewhere, and skip what had been emitted and not finished. The next ticks look whether it is."""
        slot.begin = offset
        if skipped is None:
            self._storing.save(slot.partition, offset)
        else:
            self._storing.finished.write(
                slot.partition, skipped, partial(self._begun, slot, offset)
            )

    def _begun(self, slot: _Slot, offset: int, written: bool) -> None:
        if self._slots.get(slot.partition) is not slot or slot.begin != offset:
            return
        if written:
            self._storing.save(slot.partition, offset)
        else:
            slot.begin, slot.rest_until = None, self._now + _REFUSED_REST_SECS

    def _start_over(self, slot: _Slot, now: float) -> None:
        """The broker does not have the offset that `slot` stands at."""
        manager = slot.manager
        if manager is None:
            return
        if not self._config.use_start_offset_time_if_offset_out_of_range:
            if now >= slot.rest_until:
                slot.out_of_range = False
                self._assign(manager, manager.next_offset)
            return
        offset = self._look_up_start(slot)
        if offset is None:
            return
        slot.out_of_range = False
        ahead = offset >= manager.next_offset
        if ahead:
            why = f"the broker no longer has {manager.next_offset}"
            manager.skip_to(offset, why)
        else:
            why = (
                f"it ends before {manager.next_offset}, so it is not the log that was read; {manager.pending} messages in "
                "flight are let go"
            )
        if ahead and (manager.pending or manager.waiting):
            # What lay between is gone. The messages in flight are still this manager's to finish.
            log.warning("%s goes on at offset %d: %s", _name(slot.partition), offset, why)
            self._assign(manager, offset)
            return
        log.warning("%s starts again at offset %d: %s", _name(slot.partition), offset, why)
        self._source.unassign(slot.partition)
        manager.dropped, slot.manager, slot.rest_until = True, None, 0.0
        self._begin(
            slot,
            offset,
            manager.outcomes.until(offset) if ahead else moved(manager.outcomes.start, offset, why),
        )

    def _read(self, slot: _Slot, offset: int, done: Sequence[Run]) -> None:
        """From an offset that is stored, or exactly once from a position that the stored one follows. What is `done` is not emitted
        again."""
        self._epochs += 1
        slot.begin = None
        stored = min(offset, self._offsets.stored_offset(slot.partition) or 0)
        slot.manager = PartitionManager(
            slot.partition,
            self._config,
            self._collector,
            offset=offset,
            stored=stored,
            done=done,
            epoch=self._epochs,
            rest=self._rest,
            unix_ms=self._storing.finished.now(),
        )
        self._assign(slot.manager, offset)

    def _assign(self, manager: PartitionManager, offset: int) -> None:
        self._source.assign(manager.partition, offset)
        manager.paused = False

    def _leave(self, slot: _Slot, why: str | None) -> None:
        """Of one's own accord: the next owner finds what is done."""
        manager = slot.manager
        if manager is not None:
            manager.give_back()
            self._storing.commit(manager)
            if manager.writing:
                self._source.unassign(slot.partition)
                self._leaving[slot.partition] = slot
                manager.on_written = partial(self._left, slot)
                return
        self._drop(slot, why)

    def _left(self, slot: _Slot) -> None:
        del self._leaving[slot.partition]
        self._drop(slot, None)

    def _drop(self, slot: _Slot, why: str | None) -> None:
        if slot.manager is not None:
            if why:
                log.warning(
                    "%s is dropped with %d messages in flight: %s",
                    _name(slot.partition),
                    slot.manager.pending,
                    why,
                )
            slot.manager.dropped, slot.manager = True, None
        slot.begin = None
        slot.out_of_range = False
        self._source.unassign(slot.partition)
        self._offsets.release(slot.partition)

    def _note(self, fault: SourceFault, now: float) -> None:
        self._collector.report_error(BrokerError(fault.reason))
        self._look_soon(now)
        slot = self._slots.get(fault.partition) if fault.partition else None
        if slot is not None and slot.manager is not None and fault.undecodable is not None:
            self._assign(slot.manager, slot.manager.pass_over(*fault.undecodable, fault.reason))
        begins_anew = (
            fault.out_of_range and self._config.use_start_offset_time_if_offset_out_of_range
        )
        if fault.undecodable is None and not begins_anew:  # else reading goes on
            self._heard[fault.partition] = fault.reason, now
        if slot is not None and fault.out_of_range:
            slot.out_of_range = True
            slot.rest_until = now + self._config.hosts.refresh_freq_secs


class ZkCoordinator(PartitionCoordinator):
    """Looks for partitions every `refresh_freq_secs` of the hosts, and within a second of a failed fetch.

    The name is Storm's; where it looks is the hosts' choice, ZooKeeper or Kafka itself.
    """

    _next_refresh = float("-inf")

    def _look(self, now: float) -> None:
        if now >= self._next_refresh:
            self.refresh()
            wait = (
                self._config.hosts.refresh_freq_secs if self._known else _UNKNOWN_TOPIC_REFRESH_SECS
            )
            self._next_refresh = now + wait

    def _look_soon(self, now: float) -> None:
        self._next_refresh = min(self._next_refresh, now + _FAULT_REFRESH_SECS)


class StaticCoordinator(PartitionCoordinator):
    """Takes the partitions that `StaticHosts` names, once."""

    _asked = False

    def _look(self, now: float) -> None:
        if not self._asked:
            self._asked = True
            self.refresh()

    def _look_soon(self, now: float) -> None:
        """There is nothing else to be found."""


def _name(partition: Partition) -> str:
    return f"{partition.topic}[{partition.partition}]"
