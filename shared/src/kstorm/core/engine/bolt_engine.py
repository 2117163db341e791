"""The engine of a bolt process: executes frames, ticks and hooks.

Both guarantees share one path of execution. Its policy (`kstorm.core.engine.leaving`) defines the
end of a poll, and so when emits, acks, changes and offsets are sent.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Protocol

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.checkpoints import Checkpoints
from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.leaving import BoltLeaving
from kstorm.core.engine.polls import Item, JoinedPolls
from kstorm.core.engine.sending import SendingEngine
from kstorm.core.engine.tenure import InputRecord, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.ids import NextId, NextIds
from kstorm.core.outbox import ms_between
from kstorm.core.task_state import TaskState
from kstorm.core.user_code import Steps, awaitable
from kstorm.core.wire import TupleFrame
from kstorm.errors import FrameError
from kstorm.topology import Bolt, Stateful, Topology, TopologyContext

LoadState = Callable[[int], TaskState]
"""Opens the state of a task over the changelog's local copy."""


class CurrentWork(Protocol):
    """The work in progress, for clients such as sinks.

    Records that a bolt writes to other topics belong to the current unit, so that the input offset
    waits for them too.
    """

    unit: Unit | None
    task: BoltTask | None
    """The task whose bolt is being prepared. Clients that it opens now belong to it."""


class UnobservedWork:
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
        work: CurrentWork | None = None,
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
        self._current_work: CurrentWork = work or UnobservedWork()
        self._template: Any = spec.component
        self._side_by_side = inspect.iscoroutinefunction(self._template.execute)  # type: ignore[attr-defined]
        self._next_id, self._next_ids, self._load_state = next_id, next_ids, load_state
        self._resources = dict(resources or {})
        self._hooks = _hooks_of(spec.component)
        self._numbers = count(1)  # of checkpoints
        self._poll: JoinedPolls[BoltTask] | None = None
        self._late = False  # True if a job for ticks and late acks is queued
        self.leaving: BoltLeaving = self.make_leaving()

    def make_leaving(self) -> BoltLeaving:
        """Return the policy of at-least-once processing."""
        return Checkpoints(self)

    # Events.

    def tick(self, now: float) -> list[Effect]:
        """Handle due executions, calls of other threads, late acks, checkpoints and commits."""
        self.now = now
        if not self._late and (self.outbox.handed_over or self.leaving.is_due(now)):
            self._late = True
            unit = Unit()
            self._enqueue(lambda: self._tick_steps(unit), lambda: self._end_late(unit))
        self.leaving.tick(now)
        return self._turn()

    def pace(self, every: int) -> None:
        for tenure in self.tenures.values():
            if tenure.alive:
                tenure.task.pause_every = every

    # Execution.

    def begin_poll(self, poll: JoinedPolls[BoltTask]) -> Sequence[Steps]:
        """Execute the frames, task by task. Tasks of an async bolt run concurrently."""
        self._poll, poll.began = poll, self.now
        active = [(tenure, frames) for tenure, frames in poll.frames.items() if tenure.works]
        if self._side_by_side:
            return [self._work([one], poll) for one in active]
        return [self._work(active, poll)] if active else []

    def _work(self, share: Item[BoltTask], poll: JoinedPolls[BoltTask]) -> Steps:
        """Execute the frames of some tasks, skipping tasks that have to leave."""
        worked = False
        for place, (tenure, records) in enumerate(share):
            for number, record in enumerate(records):
                if worked:
                    yield None
                    if self.leaving.breaks_off:
                        poll.rest += [(tenure, records[number:]), *share[place + 1 :]]
                        return
                if tenure.leaving:  # the rest stays uncommitted, for the next owner
                    break
                worked = True
                self._current_work.unit = poll.unit
                yield from self._execute(tenure, record, poll.unit)
                poll.reached[tenure] = record.end

    def _execute(self, tenure: TaskTenure[BoltTask], record: InputRecord, unit: Unit) -> Steps:
        try:
            frame = self._frame(TupleFrame, record)
            steps = tenure.task.receive(frame, record.offset)
        except FrameError as error:
            self._dead_letter(record, str(error), unit, self.topic, tenure.index)
        else:
            yield from steps
            if frame.marks:
                yield from tenure.task.receive_marks(frame, record.offset)
        self.frames_in += 1
        self.leaving.bytes += len(record.value or b"")
        if record.sent:
            self.executed.append(record.sent)

    def end_poll(self, poll: JoinedPolls[BoltTask]) -> None:
        for tenure, reached in poll.reached.items():
            tenure.progress.begin(poll.unit, reached)
        self._poll = self._current_work.unit = None
        self.outbox.worked = ms_between(poll.began, self.now)
        self._flush(poll.unit)
        self.outbox.worked = 0
        self.leaving.end_poll(poll.unit)
        if follower := poll.close():
            self._polls.appendleft(self._job_of(follower))

    def _tick_steps(self, unit: Unit) -> Sequence[Steps]:
        self._current_work.unit = unit
        return [
            self.leaving.due_steps(tenure)
            for tenure in self.tenures.values()
            if tenure.works and self.leaving.has_due(tenure, self.now)
        ]

    def _end_late(self, unit: Unit) -> None:
        self._late, self._current_work.unit = False, None
        self._flush(unit)
        unit.close()

    # Tasks.

    def make_task(self, tenure: TaskTenure[BoltTask]) -> Steps:
        """Copy the bolt, prepare it and give it its state."""
        topology, component, index = self.topology, self.component, tenure.index
        bolt = copy.deepcopy(self._template)
        task_id = topology.task_ids(component)[index]
        task = tenure.task = self.make_bolt_task(
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
        task.follow_time(self.time.plan)
        self._current_work.unit, self._current_work.task = None, task
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

    def _cleanup(self, tenure: TaskTenure[BoltTask], unit: Unit) -> Steps:
        self._current_work.unit = unit
        task = tenure.task
        try:
            pending = task.bolt.cleanup()
            if pending is not None:
                yield awaitable(pending)
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the task is released anyway
            self.journal.error(error, "in cleanup", task.task_id)

    def drop(self, tenure: TaskTenure[BoltTask]) -> None:
        tenure.task.collector.close()
        self.outbox.forget(tenure.task.task_id)
        self.states.pop(tenure.index, None)

    def _call_hook(self, hook: str, tasks: Iterable[int], number: int) -> Routine:
        """Call a hook of the bolts of some tasks as a separate job, if they override it."""
        if hook in self._hooks:
            chosen = list(tasks)
            yield from self._run(lambda: self._call(hook, chosen, number))

    def _call(self, hook: str, tasks: Iterable[int], number: int) -> Steps:
        """Call a hook of the bolts of some tasks.

        An exception ends the process, and the work is repeated.
        """
        for tenure in [self.tenures[task] for task in tasks if task in self.tenures]:
            pending = getattr(tenure.task.bolt, hook)(number)
            if pending is not None:
                yield awaitable(pending)


def _hooks_of(component: Any) -> set[str]:
    """Return the checkpoint hooks that a bolt overrides."""
    if not isinstance(component, Stateful):
        return set()
    return {
        name for name in _HOOKS if getattr(type(component), name) is not getattr(Stateful, name)
    }


_HOOKS = ("pre_prepare", "pre_commit", "pre_rollback")
