"""The engine of a spout process: requests tuples up to the pending limit and reports completions.

Task i is partition i of the completions topic, and the process that is assigned this partition runs
the task. A task reads completions only from the end that the topic has at its assignment, because
it does not wait for trees of other processes.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, ClassVar

from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.leaving import Leaving
from kstorm.core.engine.polls import JoinedPolls
from kstorm.core.engine.sending import SendingEngine
from kstorm.core.engine.tenure import TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.ids import NextId, NextIds
from kstorm.core.outbox import ms_between
from kstorm.core.spout_task import SpoutTask
from kstorm.core.threads import get_ident
from kstorm.core.user_code import Steps, awaitable
from kstorm.core.wire import CompletionFrame
from kstorm.errors import FrameError
from kstorm.topology import Topology, TopologyContext

CALLS_A_TURN = 100
"""Number of calls of `next_tuple` per task and turn, unless a call emits nothing."""
_LONGEST_REST = 16  # times topology_sleep_spout_wait_strategy_time_ms
_QUIET_REST_SECS = 0.5
_STALL_SECS = 5.0


class SpoutLeaving(Leaving[SpoutTask]):
    """The policy of a spout process."""

    def pauses(self) -> bool:
        """Return True if no spout may emit now."""
        return False

    def tick(self) -> None:
        """Start what is due by the clock."""


class SpoutSends(SpoutLeaving):
    """The policy of a spout process with at-least-once processing."""

    def flush(self, unit: Unit) -> None:
        engine = self._engine
        # Tuples go first: an acker must not learn of a tree before the tree exists.
        self.send(unit, engine.outbox.drain_tuples())
        engine._report_too_large()
        self.send(unit, engine.outbox.drain_acks())
        if engine.time.sends:
            self.send(unit, engine.time.frames())
        letters, engine.outbox.letters = engine.outbox.letters, []
        for letter in letters:
            engine._store_letter(letter, unit)
        unit.close()

    def tick(self) -> None:
        """Send watermarks that are due, also while nothing is emitted."""
        time = self._engine.time
        if time.sends:
            unit = Unit()
            self.send(unit, time.frames())
            unit.close()

    def let_go(self, tenure: TaskTenure[SpoutTask]) -> Routine:
        """Release a spout task:
        1. It stops emitting.
        2. Its open trees may finish, for `topology_drain_timeout_secs`: their completions still
           arrive.
        3. The spout closes. The task's next owner emits the remaining trees again.
        """
        engine, task = self._engine, tenure.task
        yield from engine._run(
            lambda: engine._last_call(task, task.deactivate(), "in deactivate")
        )  # 1
        deadline = engine.now + engine.config.topology_drain_timeout_secs
        yield lambda: not task.in_flight or engine.now >= deadline  # 2
        engine.journal.info("spout_drained", partitions=[tenure.index], trees_left=task.in_flight)
        yield from engine._run(
            lambda: engine._last_call(task, engine._close(task), "in close")
        )  # 3
        engine._flush(Unit())


class SpoutEngine(SendingEngine[SpoutTask]):
    make_spout_task: ClassVar[type[SpoutTask]] = SpoutTask

    def __init__(
        self,
        topology: Topology,
        component: str,
        journal: Journal,
        *,
        next_id: NextId,
        next_ids: NextIds | None = None,
        resources: Mapping[str, Any] | None = None,
        calls_a_turn: int = CALLS_A_TURN,
    ) -> None:
        """`calls_a_turn`: calls of `next_tuple` per task before sends and other work."""
        super().__init__(topology, component, journal)
        spec = topology.component(component)
        self.topic = topology.completions_topic(component)
        self.config = spec.config
        self.active = True
        """False if the topology is deactivated, so that spouts stop emitting while trees in flight
        finish."""
        self.rest = 0.0
        """Seconds between the last turn of the spouts and the next. Doubles while there is nothing
        to emit."""
        self.quiet: Callable[[], bool] = lambda: False
        """Returns True if the spouts have nothing to emit before `emit` is called. The rests are
        then longer."""
        self.next_turn = 0.0
        """Time of the spouts' next turn. It is infinite during a turn."""
        self._template: Any = spec.component
        self._next_id, self._next_ids, self._calls_a_turn = next_id, next_ids, calls_a_turn
        self._resources = dict(resources or {})
        self._emitting = self._ticking = False
        self.leaving: SpoutLeaving = self.make_leaving()
        self._stalled: dict[int, tuple[int, float]] = {}

    def lend(self, name: str, resource: Any) -> None:
        """Add a resource for spouts that are opened from now on."""
        self._resources[name] = resource

    def make_leaving(self) -> "SpoutLeaving":
        """Return the policy of at-least-once processing."""
        return SpoutSends(self)

    # Events.

    def emit(self, now: float) -> list[Effect]:
        """Give the spouts their next turn before it is due."""
        self.now = now
        self._begin_turn()
        return self._turn()

    def wake(self, now: float) -> list[Effect]:
        """Give the spouts their turn if it is due."""
        self.now = now
        if now >= self.next_turn:
            self._begin_turn()
        return self._turn()

    @property
    def due(self) -> float:  # type: ignore[override] # computed here, an attribute in the base
        return min(self.next_turn, self.leaving.due)

    def tick(self, now: float) -> list[Effect]:
        """Fail trees that exceeded the timeout, and log tasks that are stuck at the pending limit."""
        self.now = now
        if not self._ticking and any(
            tenure.alive and tenure.task.tick_is_due(now) for tenure in self.tenures.values()
        ):
            self._ticking = True
            unit = Unit()
            self._enqueue(self._tick_steps, lambda: self._end_ticks(unit))
        self.leaving.tick()
        self._look_for_stalls()
        return self._turn()

    @property
    def in_flight(self) -> int:
        """Trees that are neither complete nor failed."""
        return sum(tenure.task.in_flight for tenure in self.tenures.values() if tenure.alive)

    @property
    def emits(self) -> bool:
        """True if any task may emit."""
        return any(tenure.task.active for tenure in self.tenures.values() if tenure.alive)

    # The work.

    def _begin_turn(self) -> None:
        """Call `next_tuple` of each task until it emits nothing or has used its share of the turn."""
        if self._emitting:
            return
        if self.leaving.pauses():
            self.next_turn = self.now + self.rest
        else:
            self._emitting, self.next_turn = True, inf
            before, began = self._emitted, self.now
            self._enqueue(lambda: [self._ask_all()], lambda: self._end_turn(before, began))

    def _ask_all(self) -> Steps:
        for tenure in list(self.tenures.values()):
            if not tenure.works:
                continue
            task = tenure.task
            task.collector.owner = get_ident()
            if task.active != self.active:
                yield from task.activate() if self.active else task.deactivate()
            for _ in range(self._calls_a_turn):
                before = task.collector.emitted
                if tenure.leaving:
                    break
                yield from task.next_tuple(self.now)
                if task.collector.emitted == before:
                    break
                yield None

    def _end_turn(self, before: int, began: float) -> None:
        self._emitting = False
        shortest = self.config.topology_sleep_spout_wait_strategy_time_ms / 1000
        if self._emitted != before:
            self.rest = 0.0
        else:
            longest = _LONGEST_REST * shortest
            if self.rest >= longest and self.quiet():
                longest = max(longest, _QUIET_REST_SECS)
            self.rest = min(2 * self.rest or shortest, longest)
        self.next_turn = self.now + self.rest
        self.outbox.worked = ms_between(began, self.now)
        self._flush(Unit())
        self.outbox.worked = 0

    @property
    def _emitted(self) -> int:
        return sum(
            tenure.task.collector.emitted for tenure in self.tenures.values() if tenure.alive
        )

    def begin_poll(self, poll: JoinedPolls[SpoutTask]) -> Sequence[Steps]:
        """Deliver completions to the tasks, including draining tasks."""
        return [self._hear(poll)]

    def end_poll(self, poll: JoinedPolls[SpoutTask]) -> None:
        self._flush(poll.unit)
        poll.close()

    def _hear(self, poll: JoinedPolls[SpoutTask]) -> Steps:
        for tenure, records in poll.frames.items():
            if not tenure.alive:
                continue
            for record in records:
                try:
                    steps = tenure.task.completed(self._frame(CompletionFrame, record), self.now)
                except FrameError as error:
                    self._dead_letter(record, str(error), poll.unit, self.topic, tenure.index)
                else:
                    yield from steps
                self.frames_in += 1

    def _tick_steps(self) -> Sequence[Steps]:
        return [self._tick_all()]

    def _tick_all(self) -> Steps:
        for tenure in list(self.tenures.values()):
            if tenure.alive:
                yield from tenure.task.tick(self.now)

    def _end_ticks(self, unit: Unit) -> None:
        self._ticking = False
        self._flush(unit)

    def _look_for_stalls(self) -> None:
        for tenure in self.tenures.values():
            if not tenure.alive:
                continue
            task = tenure.task
            if not task.throttled or self._stalled.get(tenure.index, (-1, 0.0))[0] != task.acked:
                self._stalled[tenure.index] = (task.acked, self.now)
            elif self.now - self._stalled[tenure.index][1] > _STALL_SECS:
                self._stalled[tenure.index] = (task.acked, self.now)
                self.journal.warning(
                    "spout_stalled",
                    task=task.task_id,
                    why=f"{task.in_flight} of {task.max_pending} allowed trees are in flight and "
                    f"none completed for {_STALL_SECS:.0f} s: look for a bolt or an acker "
                    "that is down or slow",
                )

    # Tasks.

    def make_task(self, tenure: TaskTenure[SpoutTask]) -> Steps:
        """Copy the spout and open it. The next turn activates it."""
        topology, component, index = self.topology, self.component, tenure.index
        spout = copy.deepcopy(self._template)
        task_id = topology.task_ids(component)[index]
        task = tenure.task = self.make_spout_task(
            topology,
            component,
            index,
            spout,
            self.outbox,
            self._next_id,
            lambda error, doing: self.journal.error(error, doing, task_id),
            self.now,
            self._next_ids,
        )
        self.journal.made(task, task_id)
        task.tell_time(self.time.plan)
        context = TopologyContext(topology, component, index, self._resources)
        pending = spout.open(self.config, context, task.collector)
        if pending is not None:
            yield awaitable(pending)

    def _close(self, task: SpoutTask) -> Steps:
        pending = task.spout.close()
        if pending is not None:
            yield awaitable(pending)

    def _last_call(self, task: SpoutTask, steps: Steps, doing: str) -> Steps:
        try:
            yield from steps
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the task is released anyway
            self.journal.error(error, doing, task.task_id)

    def drop(self, tenure: TaskTenure[SpoutTask]) -> None:
        tenure.task.collector.close()
        self.outbox.forget(tenure.task.task_id)
        self._stalled.pop(tenure.index, None)
