"""At-least-once processing of bolts: results are sent immediately, and acks when the state changes
are stored.

The results of a frame are sent when its poll has been executed. Acks are sent with them, unless the
bolt has state. In that case they wait for the checkpoint that contains the changes of their tuples.
So the state contains the changes of every acked tuple, no matter what crashes. Offsets are
committed only up to work whose results have arrived.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.effects import ApplyToStore, CommitOffsets, Effect, Transact
from kstorm.core.engine.engine import SETTLE_SECS, Routine
from kstorm.core.engine.leaving import BoltLeaving
from kstorm.core.engine.tenure import Phase, TaskTenure
from kstorm.core.engine.units import Unit

LONG_SECS = 0.1
"""Results of a poll wait for the rest of it for no longer than this."""


class Checkpoints(BoltLeaving):
    """The policy of a bolt process with at-least-once processing."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        # Stateful bolts: executed units whose acks wait for a checkpoint.
        self._held: list[Unit] = []
        self._storing = False
        self._next_checkpoint = self._next_commit = 0.0

    def flush(self, unit: Unit) -> None:
        """Send the emits of a unit, and its acks unless they wait for a checkpoint."""
        engine = self._engine
        self.send(unit, engine.outbox.drain_tuples())
        engine._report_too_large()
        if not engine.stateful:
            self.send(unit, engine.outbox.drain_acks())
            if engine.time.sends:
                self.send(unit, engine.time.frames())

    @property
    def breaks_off(self) -> bool:  # type: ignore[override] # computed here
        """True if the poll takes long, so that the results so far should not wait for the rest."""
        engine = self._engine
        return bool(engine._poll and engine.now - engine._poll.began >= LONG_SECS)

    def end_poll(self, unit: Unit) -> None:
        if self._engine.stateful:
            unit.executed = True
            self._held.append(unit)
        else:
            unit.close()

    def is_due(self, now: float) -> bool:
        engine = self._engine
        late = engine.outbox.has_tuples or (
            not engine.stateful
            and (engine.outbox.has_acks or (engine.time.sends and engine.time.is_due))
        )
        return late or super().is_due(now)

    def tick(self, now: float) -> None:
        engine = self._engine
        config = engine.topology.config
        if engine.stateful and now >= self._next_checkpoint and not self._storing:
            self._next_checkpoint = now + config.topology_state_checkpoint_interval_ms / 1000
            engine._go_on(self._checkpoint())
        if now >= self._next_commit and not self._storing:
            self._next_commit = now + config.topology_commit_interval_ms / 1000
            self._age_held()
            self._commit()

    def checkpoint(self, now: float) -> list[Effect]:
        """Take a checkpoint and commit before they are due."""
        self._next_checkpoint = self._next_commit = now
        effects: list[Effect] = self._engine.tick(now)
        return effects

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if acks wait for a checkpoint."""
        engine = self._engine
        return engine.stateful and not self._storing and bool(self._held or engine.outbox.has_acks)

    # Release.

    def let_go(self, tenure: TaskTenure[BoltTask]) -> Routine:
        """Release a bolt task:
        1. The bolt cleans up.
        2. Its sends arrive and its changes are stored. This is repeated for tuples that it acks in
           the meantime, for a limited time.
        3. Tuples that it still holds fail, so that they are executed elsewhere now and not after
           their timeout.
        4. The offset after all of that is committed. From then on, checkpoints exclude the task.
        """
        engine, unit = self._engine, Unit()
        yield from engine._run(lambda: engine._cleanup(tenure, unit))  # 1
        engine._end_late(unit)
        deadline = engine.now + SETTLE_SECS
        yield from self._settle_task(tenure, deadline)  # 2
        if held := tenure.task.fail_held():  # 3
            engine.journal.info("held_tuples_failed", partition=tenure.index, tuples=held)
            yield from self._flush_late()
            yield from self._settle_task(tenure, deadline)
        if tenure.progress.finished < tenure.progress.begun:
            engine.journal.warning("task_left_unsettled", partition=tenure.index)
        yield from self._take_out(tenure)  # 4
        commit = CommitOffsets(
            {tenure.index: tenure.progress.commit(tenure.progress.finished)}, waits=True
        )
        engine._effects.append(commit)
        yield lambda: commit.answer is not None

    def _settle_task(self, tenure: TaskTenure[BoltTask], deadline: float) -> Routine:
        """Wait until all work of the task has arrived and is stored, or until the deadline."""
        engine = self._engine
        while True:
            if engine.stateful:
                yield from self._checkpoint()
            yield (
                lambda: tenure.progress.finished >= tenure.progress.begun or engine.now >= deadline
            )
            if engine.now >= deadline:
                break
            if not engine.outbox.has_acks and not engine.outbox.has_tuples:
                break
            yield from self._flush_late()  # Kafka confirmed a sink's records meanwhile

    def _take_out(self, tenure: TaskTenure[BoltTask]) -> Routine:
        """Exclude the task from further checkpoints.

        A transaction with its offset could otherwise be accepted when another process already has
        the task.
        """
        yield lambda: not self._storing
        tenure.phase = Phase.CLOSING

    def _flush_late(self) -> Routine:
        """Send late acks, between two jobs."""
        engine = self._engine
        yield from engine._in_turn(list)
        engine._end_late(Unit())

    # Checkpoints and commits.

    def _checkpoint(self) -> Routine:
        """Take a checkpoint of all tasks of a stateful bolt:
        1. At one moment, take the state changes, the acks that wait for them, and the units that
           wait for those acks. Also take, for each task, the offset before which all input is
           executed and all results have arrived.
        2. Commit changes and offsets in one transaction. Kafka refuses it if another process has
           taken over the tasks.
        3. Apply the changes to the local copy, which is never ahead of the changelog.
        4. Send the acks, and the watermarks as of the cut. When they have arrived, the units are done.

        The bolt's `pre_prepare` runs before 1 and its `pre_commit` between 3 and 4, each as a
        separate job. `pre_commit` runs even if nothing has changed in the state, because the bolt
        may write data that it has collected in memory before the acks are sent. After a crash
        between any two steps, work is repeated but not lost. Emitted tuples do not wait for the
        checkpoint.
        """
        engine = self._engine
        yield lambda: not self._storing
        self._storing = True
        number = next(engine._numbers)
        yield from engine._call_hook("pre_prepare", engine.states, number)
        states = engine.states.copy()  # 1
        self._store_marks()
        changes = {
            task: changed for task, state in states.items() if (changed := state.take_changes())
        }
        offsets = {
            tenure.index: tenure.progress.commit(tenure.progress.arrived)
            for tenure in engine.tenures.values()
            if tenure.alive
        }
        acks, units, self._held = engine.outbox.drain_acks(), self._held, []
        marks = engine.time.marks()
        waiting = units if engine._poll is None else [*units, engine._poll.unit]
        for unit in waiting:
            unit.add()
        if changes:
            transact = Transact(changes, offsets)  # 2
            engine._effects.append(transact)
            yield lambda: transact.answer is not None
            engine._effects.append(ApplyToStore(changes, transact.answer or {}))  # 3
            for task in changes:
                states[task].stored()
        if changes or acks or waiting:
            yield from engine._call_hook("pre_commit", states, number)
        arrived = Unit(partial(_all_delivered, waiting))  # 4
        self.send(arrived, acks)
        self.send(arrived, engine.time.frames_of(marks))
        arrived.close()
        for unit in units:
            unit.close()
        self._storing = False

    def _store_marks(self) -> None:
        for tenure in self._engine.tenures.values():
            if tenure.alive and tenure.task.marks is not None:
                tenure.task.marks.store()

    def _age_held(self) -> None:
        engine = self._engine
        for tenure in engine.tenures.values():
            if tenure.alive:
                tenure.task.held.age(engine.now)

    def _commit(self) -> None:
        """Commit finished offsets without waiting."""
        engine = self._engine
        offsets = {}
        for tenure in engine.tenures.values():
            if tenure.works and (offset := tenure.progress.finished) > tenure.progress.committed:
                offsets[tenure.index] = tenure.progress.commit(offset)
        if offsets:
            engine._effects.append(CommitOffsets(offsets))


def _all_delivered(units: Iterable[Unit]) -> None:
    for unit in units:
        unit.delivered()
