"""The engine of an acker process: applies ack frames to the ledger and emits completions.

Completions and failures are sent immediately. Only the ledger's rows wait for a checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kstorm.core.completion_box import CompletionBox
from kstorm.core.engine.effects import ApplyToStore, CommitOffsets, Effect, Transact
from kstorm.core.engine.engine import SETTLE_SECS, Engine, Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.polls import JoinedPolls
from kstorm.core.engine.tenure import Phase, TaskTenure
from kstorm.core.exactly_once.exact_ledger import ExactLedger
from kstorm.core.ledger import NO_LOG, Ledger
from kstorm.core.user_code import Steps
from kstorm.core.wire import AckFrame
from kstorm.errors import FrameError
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_ROWS_AN_INTERVAL: Final = 5000
_MOST_INTERVALS: Final = 5

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

    def begin_poll(self, poll: JoinedPolls[Ledger]) -> Sequence[Steps]:
        """Apply the frames."""
        return [self._apply(poll)]

    def _apply(self, poll: JoinedPolls[Ledger]) -> Steps:
        """Apply frames as one step: a checkpoint contains a whole poll or nothing of it."""
        for tenure, records in poll.frames.items():
            if not tenure.works:
                continue
            for record in records:
                try:
                    tenure.task.apply(self._frame(AckFrame, record), record.offset)
                except FrameError as error:
                    self._dead_letter(record, str(error), poll.unit, self.topic, tenure.index)
            tenure.progress.begin(poll.unit, records[-1].end)
            self.frames_in += len(records)
        yield from ()

    def end_poll(self, poll: JoinedPolls[Ledger]) -> None:
        """Immediately emit the completions to the spouts."""
        self._send(poll.unit, self._box.drain())
        poll.unit.close()
        poll.close()

    def tick(self, now: float) -> list[Effect]:
        """Age the rows once per message timeout, and take checkpoints."""
        self.now = now
        if now >= self._next_rotation:
            self._next_rotation = now + self.topology.longest_message_timeout_secs
            for tenure in self.tenures.values():
                if tenure.alive:
                    tenure.task.rotate()
        if now >= self._next_checkpoint and not self._storing:
            self._next_checkpoint = now + self._every * self._intervals
            self._go_on(
                self._checkpoint(
                    lambda: [tenure for tenure in self.tenures.values() if tenure.works]
                )
            )
        return self._turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Take a checkpoint before it is due."""
        self._next_checkpoint = now
        return self.tick(now)

    @property
    def _intervals(self) -> float:
        """Intervals until the next checkpoint. A checkpoint stores nearly all open trees, so it is
        rarer when there are many."""
        return min(_MOST_INTERVALS, max(1.0, self.open_trees / _ROWS_AN_INTERVAL))

    @property
    def open_trees(self) -> int:
        """Rows in the ledgers of all tasks."""
        return sum(map(len, self.tasks))

    # Tasks.

    def make_task(self, tenure: TaskTenure[Ledger]) -> Steps:
        """Restore the ledger of a task."""
        ledger = self._make_ledger(self._box, self._log_id)
        ledger.restore(self._load_rows(tenure.index))
        tenure.task = ledger
        self.journal.info("ledger_recovered", partition=tenure.index, open_trees=len(ledger))
        yield from ()

    def let_go(self, tenure: TaskTenure[Ledger]) -> Routine:
        """Release an acker task after a last checkpoint of it."""
        yield from self._checkpoint(lambda: [tenure])
        tenure.phase = Phase.CLOSING

    # The checkpoint.

    def _checkpoint(self, chosen: Callable[[], list[TaskTenure[Ledger]]]) -> Routine:
        """Take a checkpoint of some tasks, in four steps:
        1. At one moment, take the changed buckets, each with the offset that it includes, and the
           input offset. Later records belong to the next checkpoint.
        2. Wait until every completion and failure implied by the rows has arrived in the spouts'
           topics. After the deadline, the checkpoint is abandoned.
        3. Commit buckets and offsets in one transaction. Without a changed bucket, commit only the
           offset.
        4. Apply the buckets to the local copy, which is never ahead of the changelog.

        After a crash between any two steps, work is repeated but not lost.
        """
        yield lambda: not self._storing
        self._storing = True
        tenures = chosen()
        offsets = {tenure: tenure.progress.begun for tenure in tenures}  # 1
        changes = {tenure.index: list(tenure.task.checkpoint().items()) for tenure in tenures}
        deadline = self.now + SETTLE_SECS
        yield (  # 2
            lambda: (
                all(tenure.progress.finished >= offset for tenure, offset in offsets.items())
                or self.now >= deadline
            )
        )
        if all(tenure.progress.finished >= offset for tenure, offset in offsets.items()):
            yield from self._store(
                {task: changed for task, changed in changes.items() if changed}, offsets
            )
        else:
            for tenure in tenures:
                tenure.task.not_stored(key for key, _ in changes[tenure.index])
                if tenure.leaving:
                    self.journal.warning("task_left_without_checkpoint", partition=tenure.index)
        self._storing = False

    def _store(
        self,
        changes: Mapping[int, list[tuple[bytes, bytes]]],
        offsets: Mapping[TaskTenure[Ledger], int],
    ) -> Routine:
        """Carry out steps 3 and 4 of a checkpoint."""
        known = {tenure.index: offset for tenure, offset in offsets.items()}
        if changes:  # 3
            transact = Transact(changes, known)
            self._effects.append(transact)
            yield lambda: transact.answer is not None
            self._effects.append(ApplyToStore(changes, transact.answer or {}))  # 4
        elif any(tenure.leaving for tenure in offsets):  # the last chance to commit
            commit = CommitOffsets(known, waits=True)
            self._effects.append(commit)
            yield lambda: commit.answer is not None
        else:
            fresh = {
                tenure.index: offset
                for tenure, offset in offsets.items()
                if offset > tenure.progress.committed
            }
            if fresh:
                self._effects.append(CommitOffsets(fresh))
        for tenure, offset in offsets.items():
            tenure.progress.commit(offset)
        self.checkpoints += 1
