"""The engine of an acker process: applies ack frames to the ledger and emits completions.

Completions and failures are sent immediately. Only the ledger's rows wait for a checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kstorm.core.engine.effects import Commit, Effect, Keep, Transact
from kstorm.core.engine.engine import SETTLE_SECS, Engine, Item, Job, Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.slot import Phase, Slot
from kstorm.core.engine.units import Unit
from kstorm.core.exact.ledger import ExactLedger
from kstorm.core.ledger import NO_LOG, Ledger
from kstorm.core.outbox import CompletionBox
from kstorm.core.tasks import Steps
from kstorm.core.wire import AckFrame
from kstorm.errors import FrameError
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

LoadRows = Callable[[int], Iterable[tuple[bytes, bytes]]]
"""Loads a task's stored buckets from the changelog's local copy."""


class AckerEngine(Engine[Ledger]):
    def __init__(
        self,
        topology: Topology,
        journal: Journal,
        *,
        load_rows: LoadRows,
        now: float,
        log_id: bytes = NO_LOG,
    ) -> None:
        super().__init__(topology, ACKER_COMPONENT, journal)
        self.topic, self.changelog = topology.acker_topic, topology.ledger_topic
        self.checkpoints = 0
        self._box = CompletionBox(topology)
        self._make_ledger = ExactLedger if topology.config.exactly_once else Ledger
        self._load_rows, self._log_id = load_rows, log_id
        self._every = topology.config.topology_acker_checkpoint_interval_ms / 1000
        self._next_checkpoint = 0.0
        self._next_rotation = now + topology.longest_message_timeout_secs
        self._storing = False

    # Events.

    def polled(self, item: Item[Ledger], unit: Unit, now: float) -> list[Effect]:
        """Apply the frames and immediately emit completions to the spouts."""
        self.now = now
        self._polls.append(Job(lambda: [self._apply(item, unit)], partial(self._end_poll, unit)))
        return self._turn()

    def _apply(self, item: Item[Ledger], unit: Unit) -> Steps:
        """Apply frames as one step: a checkpoint has all of a poll or none of it."""
        for slot, records in item:
            if not slot.works:
                continue
            for record in records:
                try:
                    slot.task.apply(self._frame(AckFrame, record), record.offset)
                except FrameError as error:
                    self._dead_letter(record, str(error), unit, self.topic, slot.index)
            slot.progress.begin(unit, records[-1].end)
            self.frames_in += len(records)
        yield from ()

    def _end_poll(self, unit: Unit) -> None:
        self._send(unit, self._box.drain())
        unit.close()

    def tick(self, now: float) -> list[Effect]:
        """Age the rows once per message timeout, and take checkpoints."""
        self.now = now
        if now >= self._next_rotation:
            self._next_rotation = now + self.topology.longest_message_timeout_secs
            for slot in self.slots.values():
                if slot.alive:
                    slot.task.rotate()
        if now >= self._next_checkpoint and not self._storing:
            self._next_checkpoint = now + self._every
            self._start(
                self._checkpoint(lambda: [slot for slot in self.slots.values() if slot.works])
            )
        return self._turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Take a checkpoint before it is due."""
        self._next_checkpoint = now
        return self.tick(now)

    @property
    def open_trees(self) -> int:
        """Rows in the ledgers of all tasks."""
        return sum(map(len, self.tasks))

    # Tasks.

    def make_task(self, slot: Slot[Ledger]) -> Steps:
        """Restore the ledger of a task."""
        ledger = self._make_ledger(self._box, self._log_id)
        ledger.restore(self._load_rows(slot.index))
        slot.task = ledger
        self.journal.info("ledger_recovered", partition=slot.index, open_trees=len(ledger))
        yield from ()

    def let_go(self, slot: Slot[Ledger]) -> Routine:
        """Release an acker task after a last checkpoint of it."""
        yield from self._checkpoint(lambda: [slot])
        slot.phase = Phase.CLOSING

    # The checkpoint.

    def _checkpoint(self, chosen: Callable[[], list[Slot[Ledger]]]) -> Routine:
        """Take a checkpoint of some tasks:
        1. Cut, at one moment: the changed buckets, each with the offset that it includes, and the
           input offset. Later records belong to the next checkpoint.
        2. Wait until every completion and failure implied by the rows has arrived in the spouts'
           topics. After the deadline, the buckets count as never taken.
        3. Commit buckets and offsets in one transaction. Without a changed bucket, commit only the
           offset.
        4. Apply the buckets to the local copy, which is never ahead of the changelog.

        A crash between any two steps repeats work and loses none.
        """
        yield lambda: not self._storing
        self._storing = True
        slots = chosen()
        offsets = {slot: slot.progress.begun for slot in slots}  # 1
        changes = {slot.index: list(slot.task.checkpoint().items()) for slot in slots}
        deadline = self.now + SETTLE_SECS
        yield (  # 2
            lambda: (
                all(slot.progress.finished >= offset for slot, offset in offsets.items())
                or self.now >= deadline
            )
        )
        if all(slot.progress.finished >= offset for slot, offset in offsets.items()):
            yield from self._store(
                {task: changed for task, changed in changes.items() if changed}, offsets
            )
        else:
            for slot in slots:
                slot.task.not_stored(key for key, _ in changes[slot.index])
                if slot.leaving:
                    self.journal.warning("task_left_without_checkpoint", partition=slot.index)
        self._storing = False

    def _store(
        self, changes: Mapping[int, list[tuple[bytes, bytes]]], offsets: Mapping[Slot[Ledger], int]
    ) -> Routine:
        """Carry out steps 3 and 4 of a checkpoint."""
        known = {slot.index: offset for slot, offset in offsets.items()}
        if changes:  # 3
            transact = Transact(changes, known)
            self._effects.append(transact)
            yield lambda: transact.answer is not None
            self._effects.append(Keep(changes, transact.answer or {}))  # 4
        elif any(slot.leaving for slot in offsets):  # the last chance to commit
            commit = Commit(known, waits=True)
            self._effects.append(commit)
            yield lambda: commit.answer is not None
        else:
            fresh = {
                slot.index: offset
                for slot, offset in offsets.items()
                if offset > slot.progress.committed
            }
            if fresh:
                self._effects.append(Commit(fresh))
        for slot, offset in offsets.items():
            slot.progress.commit(offset)
        self.checkpoints += 1
