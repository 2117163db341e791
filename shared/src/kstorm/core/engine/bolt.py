"""The engine of a bolt process: executes frames, sends tuples and acks, and commits offsets.

The results of a frame leave when its poll has been executed. Acks leave with them, unless the bolt
has state: then they wait for the checkpoint with the changes made by their tuples. So the change of
an acked tuple is in the state, whatever crashes. Offsets are committed only up to work whose
results have arrived.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, ClassVar, Protocol

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.effects import Commit, Effect, Keep, Transact
from kstorm.core.engine.engine import SETTLE_SECS, Item, Job, Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.poll import Poll
from kstorm.core.engine.sending import SendingEngine
from kstorm.core.engine.slot import Phase, Record, Slot
from kstorm.core.engine.units import Unit
from kstorm.core.ids import NextId, NextIds
from kstorm.core.outbox import ms_between
from kstorm.core.state import TaskState
from kstorm.core.tasks import Steps, awaitable
from kstorm.core.wire import TupleFrame
from kstorm.errors import FrameError
from kstorm.topology import Bolt, Stateful, Topology, TopologyContext

LoadState = Callable[[int], TaskState]
"""Opens the state of a task over the changelog's local copy."""


class Work(Protocol):
    """The work in progress, shown to clients such as sinks.

    Records that a bolt writes elsewhere belong to the current unit. So its input offset waits for
    them too.
    """

    unit: Unit | None
    task: BoltTask | None
    """The task whose bolt is being prepared. Clients that it opens now belong to it."""


class AtHand:
    """The work in progress, if nothing needs to observe it."""

    unit: Unit | None = None
    task: BoltTask | None = None


class BoltEngine(SendingEngine[BoltTask]):
    make_bolt_task: ClassVar[type[BoltTask]] = BoltTask

    def __init__(
        self,
        topology: Topology,
        component: str,
        journal: Journal,
        *,
        next_id: NextId,
        next_ids: NextIds | None = None,
        load_state: LoadState | None = None,
        resources: Mapping[str, Any] | None = None,
        work: Work | None = None,
    ) -> None:
        """`load_state` opens the state of a task, if the bolt has state.

        `work` always shows the work in progress.
        """
        super().__init__(topology, component, journal)
        spec = topology.component(component)
        self.topic = topology.bolt_topic(component)
        self.stateful = isinstance(spec.component, Stateful)
        self.changelog = topology.state_topic(component) if self.stateful else ""
        self.states: dict[int, TaskState] = {}
        """State by task, for a stateful bolt."""
        self.executed: list[float] = []
        """Send times (wall clock, seconds) of frames executed since the list was last cleared."""
        self._at_hand: Work = work or AtHand()
        self._template: Any = spec.component
        self._side_by_side = inspect.iscoroutinefunction(self._template.execute)  # type: ignore[attr-defined]
        self._next_id, self._next_ids, self._load_state = next_id, next_ids, load_state
        self._resources = dict(resources or {})
        self._hooks = _hooks_of(spec.component)
        self._numbers = count(1)  # of checkpoints
        # Stateful bolts: executed units whose acks wait for a checkpoint.
        self._held: list[Unit] = []
        self._poll: Poll | None = None
        self._late = False  # True if a job for ticks and late acks is queued
        self._storing = False
        self._next_checkpoint = self._next_commit = 0.0

    # Events.

    def polled(self, item: Item[BoltTask], unit: Unit, now: float) -> list[Effect]:
        """Execute the frames, task by task. Tasks of an async bolt run concurrently."""
        self.now = now
        self._polls.append(self._part(item, unit))
        return self._turn()

    def _part(self, item: Item[BoltTask], whole: Unit) -> Job:
        poll = Poll(whole)
        return Job(lambda: self._begin_poll(item, poll), lambda: self._end_poll(poll))

    @property
    def breaks_off(self) -> bool:
        """True if something must happen before the next frame of a poll.

        The rest then becomes a separate part.
        """
        return False

    def tick(self, now: float) -> list[Effect]:
        """Handle due tick tuples, late acks, checkpoints and commits."""
        self.now = now
        if not self._late and (self.outbox.has_tuples or self._acks_may_leave or self._tick_is_due):
            self._late = True
            unit = Unit()
            self._enqueue(lambda: self._tick_steps(unit), lambda: self._end_late(unit))
        if self.stateful and now >= self._next_checkpoint and not self._storing:
            self._next_checkpoint = (
                now + self.topology.config.topology_state_checkpoint_interval_ms / 1000
            )
            self._start(self._checkpoint())
        if now >= self._next_commit and not self._storing:
            self._next_commit = now + self.topology.config.topology_commit_interval_ms / 1000
            self._age_held()
            self._commit()
        return self._turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Take a checkpoint and commit before they are due."""
        self._next_checkpoint = self._next_commit = self.now = now
        return self.tick(now)

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if acks wait for a checkpoint."""
        return self.stateful and not self._storing and bool(self._held or self.outbox.has_acks)

    def pace(self, every: int) -> None:
        for slot in self.slots.values():
            if slot.alive:
                slot.task.pause_every = every

    # Execution.

    def _begin_poll(self, item: Item[BoltTask], poll: Poll) -> Sequence[Steps]:
        self._poll, poll.began = poll, self.now
        active = [(slot, records) for slot, records in item if slot.works]
        if self._side_by_side:
            return [self._work([one], poll) for one in active]
        return [self._work(active, poll)] if active else []

    def _work(self, share: Item[BoltTask], poll: Poll) -> Steps:
        """Execute the frames of some tasks, skipping tasks that have to leave."""
        worked = False
        for place, (slot, records) in enumerate(share):
            for number, record in enumerate(records):
                if worked:
                    yield None
                    if self.breaks_off:
                        poll.rest += [(slot, records[number:]), *share[place + 1 :]]
                        return
                if slot.leaving:  # the rest stays uncommitted, for the next owner
                    break
                worked = True
                self._at_hand.unit = poll.unit
                yield from self._execute(slot, record, poll.unit)
                poll.reached[slot] = record.end

    def _execute(self, slot: Slot[BoltTask], record: Record, unit: Unit) -> Steps:
        try:
            steps = slot.task.receive(self._frame(TupleFrame, record), record.offset)
        except FrameError as error:
            self._dead_letter(record, str(error), unit, self.topic, slot.index)
        else:
            yield from steps
        self.frames_in += 1
        if record.sent:
            self.executed.append(record.sent)

    def _end_poll(self, poll: Poll) -> None:
        for slot, reached in poll.reached.items():
            slot.progress.begin(poll.unit, reached)
        self._poll = self._at_hand.unit = None
        self.outbox.worked = ms_between(poll.began, self.now)
        self._flush(poll.unit)
        self.outbox.worked = 0
        if self.stateful:
            poll.unit.executed = True
            self._held.append(poll.unit)
        else:
            poll.unit.close()
        if poll.rest:
            self._jobs.appendleft(self._part(poll.rest, poll.whole))
        else:
            poll.whole.close()

    def _tick_steps(self, unit: Unit) -> Sequence[Steps]:
        self._at_hand.unit = unit
        return [
            slot.task.tick(self.now)
            for slot in self.slots.values()
            if slot.works and slot.task.tick_is_due(self.now)
        ]

    def _end_late(self, unit: Unit) -> None:
        self._late, self._at_hand.unit = False, None
        self._flush(unit)
        unit.close()

    def _flush(self, unit: Unit) -> None:
        """Send the emits of a unit, and its acks unless they wait for a checkpoint."""
        self._send(unit, self.outbox.drain_tuples())
        self._report_too_large()
        if not self.stateful:
            self._send(unit, self.outbox.drain_acks())

    @property
    def _tick_is_due(self) -> bool:
        return any(slot.works and slot.task.tick_is_due(self.now) for slot in self.slots.values())

    @property
    def _acks_may_leave(self) -> bool:
        return not self.stateful and self.outbox.has_acks

    # Tasks.

    def make_task(self, slot: Slot[BoltTask]) -> Steps:
        """Copy the bolt, prepare it and give it its state."""
        topology, component, index = self.topology, self.component, slot.index
        bolt = copy.deepcopy(self._template)
        task_id = topology.task_ids(component)[index]
        task = slot.task = self.make_bolt_task(
            topology,
            component,
            index,
            bolt,
            self.outbox,
            self._next_id,
            lambda error, doing: self.journal.error(error, doing, task_id),
            self._next_ids,
        )
        self.journal.made(task, task_id)
        self._at_hand.unit, self._at_hand.task = None, task
        context = TopologyContext(topology, component, index, self._resources)
        pending = bolt.prepare(
            task.config, context, *((task.collector,) if isinstance(bolt, Bolt) else ())
        )
        if pending is not None:
            yield awaitable(pending)
        if self._load_state is not None and self.stateful:
            state = self.states[index] = self._load_state(index)
            if "pre_rollback" in self._hooks and next(state.items(), None) is not None:
                pending = bolt.pre_rollback()
                if pending is not None:
                    yield awaitable(pending)
            pending = bolt.init_state(state)
            if pending is not None:
                yield awaitable(pending)
        yield from task.tick(self.now)  # the first call only starts the tick clock

    def let_go(self, slot: Slot[BoltTask]) -> Routine:
        """Release a bolt task:
        1. The bolt cleans up.
        2. Its sends arrive and its changes are stored. This repeats for what it acks meanwhile, for
           a bounded time.
        3. Tuples that it still holds fail, so that they are executed elsewhere now and not after
           their timeout.
        4. The offset after all of that is committed. From here on, no checkpoint includes the task.
        """
        unit = Unit()
        yield from self._run(lambda: self._cleanup(slot, unit))  # 1
        self._end_late(unit)
        deadline = self.now + SETTLE_SECS
        yield from self._settle_task(slot, deadline)  # 2
        if held := slot.task.fail_held():  # 3
            self.journal.info("held_tuples_failed", partition=slot.index, tuples=held)
            yield from self._flush_late()
            yield from self._settle_task(slot, deadline)
        if slot.progress.finished < slot.progress.begun:
            self.journal.warning("task_left_unsettled", partition=slot.index)
        yield from self._take_out(slot)  # 4
        commit = Commit({slot.index: slot.progress.commit(slot.progress.finished)}, waits=True)
        self._effects.append(commit)
        yield lambda: commit.answer is not None

    def _settle_task(self, slot: Slot[BoltTask], deadline: float) -> Routine:
        """Wait until all work of the task has arrived and is stored, or until the deadline."""
        while True:
            if self.stateful:
                yield from self._checkpoint()
            yield lambda: slot.progress.finished >= slot.progress.begun or self.now >= deadline
            if self.now >= deadline:
                break
            if not self.outbox.has_acks and not self.outbox.has_tuples:
                break
            yield from self._flush_late()  # Kafka confirmed a sink's records meanwhile

    def _take_out(self, slot: Slot[BoltTask]) -> Routine:
        """Exclude the task from further checkpoints.

        A transaction with its offset could otherwise be accepted when another process already has
        the task.
        """
        yield lambda: not self._storing
        slot.phase = Phase.CLOSING

    def _cleanup(self, slot: Slot[BoltTask], unit: Unit) -> Steps:
        self._at_hand.unit = unit
        task = slot.task
        try:
            pending = task.bolt.cleanup()
            if pending is not None:
                yield awaitable(pending)
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the task is released anyway
            self.journal.error(error, "in cleanup", task.task_id)

    def _flush_late(self) -> Routine:
        """Send late acks, between two jobs."""
        yield from self._in_turn(list)
        self._end_late(Unit())

    def drop(self, slot: Slot[BoltTask]) -> None:
        self.outbox.forget(slot.task.task_id)
        self.states.pop(slot.index, None)

    # Checkpoints and commits.

    def _checkpoint(self) -> Routine:
        """Take a checkpoint of all tasks of a stateful bolt:
        1. Cut, at one moment: the state changes, the acks that wait for them, and the units that
           wait for those acks. Also, for each task, the offset before which everything is executed
           and its results have arrived.
        2. Commit changes and offsets in one transaction. Kafka refuses it if another process has
           taken over the tasks.
        3. Apply the changes to the local copy, which is never ahead of the changelog.
        4. Send the acks. When they have arrived, the units are done.

        The bolt's `pre_prepare` runs before 1 and its `pre_commit` between 3 and 4, each as a job
        of its own. A crash between any two steps repeats work and loses none. Emitted tuples did
        not wait: they left immediately.
        """
        yield lambda: not self._storing
        self._storing = True
        states, number = self.states.copy(), next(self._numbers)
        if "pre_prepare" in self._hooks:
            yield from self._run(lambda: self._call("pre_prepare", states, number))
        states = self.states.copy()  # 1
        changes = {
            task: changed for task, state in states.items() if (changed := state.take_changes())
        }
        offsets = {
            slot.index: slot.progress.commit(slot.progress.arrived)
            for slot in self.slots.values()
            if slot.alive
        }
        acks, units, self._held = self.outbox.drain_acks(), self._held, []
        waiting = units if self._poll is None else [*units, self._poll.unit]
        for unit in waiting:
            unit.add()
        if changes:
            transact = Transact(changes, offsets)  # 2
            self._effects.append(transact)
            yield lambda: transact.answer is not None
            self._effects.append(Keep(changes, transact.answer or {}))  # 3
            for task in changes:
                states[task].stored()
            if "pre_commit" in self._hooks:
                yield from self._run(lambda: self._call("pre_commit", changes, number))
        arrived = Unit(partial(_all_delivered, waiting))  # 4
        self._send(arrived, acks)
        arrived.close()
        for unit in units:
            unit.close()
        self._storing = False

    def _call(self, hook: str, tasks: Iterable[int], number: int) -> Steps:
        """Call a hook of the bolts of some tasks.

        An exception ends the process, and the work is repeated.
        """
        for slot in [self.slots[task] for task in tasks if task in self.slots]:
            pending = getattr(slot.task.bolt, hook)(number)
            if pending is not None:
                yield awaitable(pending)

    def _age_held(self) -> None:
        for slot in self.slots.values():
            if slot.alive:
                slot.task.held.age(self.now)

    def _commit(self) -> None:
        """Commit finished offsets without waiting."""
        offsets = {}
        for slot in self.slots.values():
            if slot.works and (offset := slot.progress.finished) > slot.progress.committed:
                offsets[slot.index] = slot.progress.commit(offset)
        if offsets:
            self._effects.append(Commit(offsets))


def _all_delivered(units: Iterable[Unit]) -> None:
    for unit in units:
        unit.delivered()


def _hooks_of(component: Any) -> set[str]:
    """Return the checkpoint hooks that a bolt overrides."""
    if not isinstance(component, Stateful):
        return set()
    return {
        name for name in _HOOKS if getattr(type(component), name) is not getattr(Stateful, name)
    }


_HOOKS = ("pre_prepare", "pre_commit", "pre_rollback")
