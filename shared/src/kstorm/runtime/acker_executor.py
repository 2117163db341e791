"""Runs acker tasks: ack frames in, completions out, the ledger kept in a table.

A checkpoint of a task, every `topology_acker_checkpoint_interval_ms`, in this order: (1) every completion and failure that
the rows already imply has been delivered to the spouts' topic; (2) the buckets whose content differs from what was last
written go to the changelog, each with the offset that it includes, in one transaction with (4) the input offset; (3) when
that is committed, into RocksDB. A crash between any two steps repeats work and loses none.
"""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message

from kstorm.core.ledger import Ledger
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
from kstorm.runtime.slots import TaskSlot
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
        self._next_rotation = time.monotonic() + topology.longest_message_timeout_secs
        self.checkpoints = self.checkpoint_bytes = 0
        self._gone: dict[str, int] = {}

    def use_table(self, app: ChannelApp) -> None:
        """Gives the ledger its table; called before the app starts."""
        config = self.topology.config
        self._table = RecoveringTable(
            app, "ledger", self.topology.ledger_topic, config.acker_tasks, self.settings, self.log
        )

    async def make_task(self, partition: int) -> Ledger:
        """Recovers the ledger of a task."""
        started = time.monotonic()
        records = await self._table.open(partition)
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
        if await self._checkpoint(slot):
            await self.commit_now([slot])
        else:
            self.log.warning("task_left_without_checkpoint", partition=slot.partition)
        for name, count in _counts(slot.task).items():
            self._gone[name] = self._gone.get(name, 0) + count
        self._table.close(slot.partition)

    async def work(self, slot: TaskSlot[Ledger], records: list[Message], unit: WorkUnit) -> None:
        """Applies the frames of one task."""
        for record in records:
            try:
                slot.task.apply(decode(AckFrame, record.value()), record.offset() or 0)
            except FrameError as error:
                self.dead_letter_record(record, str(error), unit)

    def flush(self, unit: WorkUnit) -> None:
        """Tells the spouts at once what has become of their trees."""
        self.send(unit, self._box.drain(0))

    async def periodic(self, now: float) -> None:
        """Checkpoints, and ages the rows once per message timeout."""
        if now >= self._next_rotation:
            self._next_rotation = now + self.topology.longest_message_timeout_secs
            for slot in self.slots.values():
                slot.task.rotate()
        if now >= self._next_checkpoint and not self._busy.locked():
            self._next_checkpoint = now + self.topology.config.topology_acker_checkpoint_interval_ms / 1000
            for slot in list(self.slots.values()):
                async with self._busy:
                    if slot.active:
                        await self._checkpoint(slot)

    def commit(self) -> None:
        """Offsets are committed by checkpoints only."""

    async def _checkpoint(self, slot: TaskSlot[Ledger]) -> bool:
        """Nothing is applied meanwhile, so the rows, the offset and the completions belong together.

        False if the completions could not be delivered in time: then nothing was written, and nothing may be committed.
        """
        if not await self.settled([slot], _SETTLE_SECONDS):  # (1)
            return False
        changed = slot.task.checkpoint()
        if changed:  # (2), and with it (4); then (3)
            offsets = {slot.partition: slot.safe_offset} if slot.safe_offset >= 0 else {}
            await self._table.write(self._writer, {slot.partition: list(changed.items())}, offsets)
        self.checkpoints += 1
        self.checkpoint_bytes += sum(map(len, changed.values()))
        offset = slot.progress.to_commit()
        if offset is not None and slot.active:
            self.consumer.commit({slot.partition: offset})  # (4)
        return True

    def samples(self) -> Iterable[Sample]:
        """Of the ledger, and of what its rules kept out."""
        yield from super().samples()
        totals = self._totals()
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
        yield "acker_checkpoint_bytes_total", "Bytes written by checkpoints", self.checkpoint_bytes, {}

    def status(self) -> dict[str, Any]:
        """Adds the ledger's counts to what every executor shows."""
        totals = self._totals()
        counts = {
            "executed": totals["acks"] + totals["inits"],
            "acked": totals["completed"],
            "failed": totals["failed"],
        }
        open_trees = sum(len(slot.task) for slot in self.slots.values())
        emitted = totals["completed"] + totals["failed"]
        return {**super().status(), "kind": "acker", "emitted": emitted, **counts, "pending": open_trees}

    def _totals(self) -> dict[str, int]:
        totals = dict.fromkeys(_COUNTERS, 0) | self._gone
        for slot in self.slots.values():
            for name, count in _counts(slot.task).items():
                totals[name] += count
        return totals


_COUNTERS = ("inits", "acks", "completed", "failed", "expired", "repeated_inits", "skipped_records")


def _counts(ledger: Ledger) -> dict[str, int]:
    return {name: getattr(ledger, name) for name in _COUNTERS}
