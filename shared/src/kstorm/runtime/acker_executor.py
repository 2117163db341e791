"""Runs acker tasks: ack frames in, completions out, the ledger kept in a table.

A checkpoint of a task, every `topology_acker_checkpoint_interval_ms`, in this order: (1) every completion and failure that
the rows already imply has been delivered to the spouts' topic; (2) the buckets whose content differs from what was last
written go to the changelog, each with the offset that it includes, in one transaction with (4) the input offset; (3) when
that is committed, into RocksDB. If no bucket has changed there is no transaction, and the consumer commits the offset. A
crash between any two steps repeats work and loses none.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message

from kstorm.core.ledger import Ledger, check_bucket
from kstorm.core.outbox import CompletionBox
from kstorm.core.wire import AckFrame, decode
from kstorm.errors import FrameError
from kstorm.runtime.app import ChannelApp
from kstorm.runtime.checkpoints import CheckpointWriter
from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.executor import Executor
from kstorm.runtime.log import Logger
from kstorm.runtime.metrics import Sample
from kstorm.runtime.settings import Settings
from kstorm.runtime.slots import TaskSlot, Totals
from kstorm.runtime.tables import RecoveringTable
from kstorm.runtime.topics import topic_id
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_SETTLE_SECONDS = 10.0


class AckerExecutor(Executor[Ledger]):
    """The acker tasks of one process."""

    def __init__(self, settings: Settings, topology: Topology, log: Logger) -> None:
        super().__init__(settings, topology, ACKER_COMPONENT, log)
        self.topic = topology.acker_topic
        self.group = topology.acker_topic
        self._box = CompletionBox(topology)
        self._log_id = topic_id(topology.acker_topic, settings)
        self._table: RecoveringTable
        self._writer: CheckpointWriter
        self._next_checkpoint = 0.0
        self._checkpointing = asyncio.Lock()
        self._sent: dict[int, int] = {}  # by partition, the offset that was last committed
        self._next_rotation = time.monotonic() + topology.longest_message_timeout_secs
        self.checkpoints = 0
        self._totals = Totals(self.slots, _counts)

    def use_table(self, app: ChannelApp) -> None:
        """Gives the ledger its table; called before the app starts."""
        config = self.topology.config
        self._table = RecoveringTable(
            app, "ledger", self.topology.ledger_topic, config.acker_tasks, self.settings, self.log, check_bucket
        )

    async def make_task(self, partition: int) -> Ledger:
        """Recovers the ledger of a task."""
        started = time.monotonic()
        records, refused = await self._table.open(partition)
        self.dead_letter_changes(refused)
        ledger = Ledger(self._box, self._log_id)
        ledger.restore(self._table.items(partition))
        seconds = round(time.monotonic() - started, 3)
        self.log.info("ledger_recovered", partition=partition, records=records, open_trees=len(ledger), seconds=seconds)
        return ledger

    async def before_join(self) -> None:
        """Opens the writer of checkpoints."""
        self._writer = CheckpointWriter(self.settings, self.topic, self.group, self.consumer)
        await self._writer.open()

    async def after_leave(self) -> None:
        """Closes it."""
        self._writer.close()

    async def end_task(self, slot: TaskSlot[Ledger]) -> None:
        """Checkpoint, then release."""
        if not await self._checkpoint([slot]):
            self.log.warning("task_left_without_checkpoint", partition=slot.partition)
        self._sent.pop(slot.partition, None)
        self._totals.keep(slot.task)
        self._table.close(slot.partition)

    async def work(self, slot: TaskSlot[Ledger], records: list[Message], unit: WorkUnit) -> int:
        """Applies the frames of one task."""
        for record in records:
            try:
                slot.task.apply(decode(AckFrame, record.value()), record.offset() or 0)
            except FrameError as error:
                self.dead_letter_record(record, str(error), unit)
        return len(records)

    def flush(self, unit: WorkUnit) -> None:
        """Tells the spouts at once what has become of their trees."""
        self.send(unit, self._box.drain(0))

    async def periodic(self, now: float) -> None:
        """Checkpoints, and ages the rows once per message timeout."""
        if now >= self._next_rotation:
            self._next_rotation = now + self.topology.longest_message_timeout_secs
            for slot in self.slots.values():
                slot.task.rotate()
        if now >= self._next_checkpoint and not self._checkpointing.locked():
            self._next_checkpoint = now + self.topology.config.topology_acker_checkpoint_interval_ms / 1000
            await self._checkpoint([slot for slot in self.slots.values() if slot.active])

    def commit(self) -> None:
        """Offsets are committed by checkpoints only."""

    async def _checkpoint(self, slots: list[TaskSlot[Ledger]]) -> bool:
        """Rows and offset are those of one moment; what is applied while they are on their way is the next one's.

        False if the completions could not be delivered in time: then nothing was written, and nothing may be committed.
        """
        async with self._checkpointing:
            offsets = {slot.partition: max(slot.progress.begun, slot.first_offset) for slot in slots}
            changes = {slot.partition: slot.task.checkpoint() for slot in slots}
            if not await self.settled(slots, _SETTLE_SECONDS):  # (1)
                for slot in slots:
                    slot.task.not_stored(changes[slot.partition])
                return False
            changed = {partition: list(some.items()) for partition, some in changes.items() if some}
            known = {partition: offset for partition, offset in offsets.items() if offset >= 0}
            if changed:  # (2), and with it (4), new or not, since it fences zombies; then (3)
                await self._table.write(self._writer, changed, known)
            elif all(slot.active for slot in slots):  # (4) alone, here and below
                self.consumer.commit(
                    {place: offset for place, offset in known.items() if self._sent.get(place) != offset}
                )
            else:  # its last chance
                await self.consumer.commit_and_wait(known)
            self._sent |= known
            self.checkpoints += 1
            return True

    def samples(self) -> Iterable[Sample]:
        """Of the ledger, and of what its rules kept out."""
        yield from super().samples()
        totals = self._totals.now()
        yield "acker_trees_open", "Rows of the ledger", sum(len(slot.task) for slot in self.slots.values()), {}
        yield "acker_inits_total", "Trees begun", totals["inits"], {}
        yield "acker_acks_total", "Acks applied, folded per frame", totals["acks"], {}
        yield "acker_completed_total", "Trees completed", totals["completed"], {}
        yield "acker_failed_total", "Trees failed by a bolt", totals["failed"], {}
        yield "acker_expired_total", "Rows dropped as too old", totals["expired"], {}
        yield "acker_repeated_inits_total", "Second inits that were ignored", totals["repeated_inits"], {}
        yield (
            "acker_replayed_updates_skipped_total",
            "Updates that a bucket contained already",
            totals["skipped_records"],
            {},
        )
        yield "acker_checkpoints_total", "Checkpoints taken", self.checkpoints, {}
        yield from self._writer.samples()

    def status(self) -> dict[str, Any]:
        """Adds the ledger's counts to what every executor shows."""
        totals = self._totals.now()
        counts = {
            "executed": totals["acks"] + totals["inits"],
            "acked": totals["completed"],
            "failed": totals["failed"],
        }
        open_trees = sum(len(slot.task) for slot in self.slots.values())
        emitted = totals["completed"] + totals["failed"]
        return {**super().status(), "kind": "acker", "emitted": emitted, **counts, "pending": open_trees}


_COUNTERS = ("inits", "acks", "completed", "failed", "expired", "repeated_inits", "skipped_records")


def _counts(ledger: Ledger) -> dict[str, int]:
    return {name: getattr(ledger, name) for name in _COUNTERS}
