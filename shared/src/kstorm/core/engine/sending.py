"""Base of the engines whose tasks emit: one outbox collects the sends of the whole process."""

from collections.abc import Mapping, Sequence
from typing import Any

from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Engine, Routine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.leaving import Leaving
from kstorm.core.engine.tenure import T, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.watermarks import MarkSender, TaskTime
from kstorm.topology import Topology
from kstorm.topology.event_time import UNKNOWN, Mark, TimePlan


class SendingEngine(Engine[T]):
    leaving: Leaving[T]
    """The policy. Each kind of engine sets it."""

    def __init__(self, topology: Topology, component: str, journal: Journal, **more: Any) -> None:
        super().__init__(topology, component, journal, **more)
        self.outbox = Outbox(topology)
        self.time = ProcessTime(self)
        """The watermarks of the tasks."""

    def sends_as(self, instance: str) -> None:
        self.outbox.by = instance

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        return self.outbox.sent

    @property
    def due(self) -> float:  # type: ignore[override] # computed here, an attribute in the base
        return self.leaving.due

    @property
    def held_back(self) -> bool:
        return self.leaving.held_back

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if any results can be sent only with a checkpoint, or wait for the next tick."""
        return self.leaving.waits_for_checkpoint or bool(self.outbox.handed_over)

    def checkpoint(self, now: float) -> list[Effect]:
        """Store and commit before it is due."""
        return self.leaving.checkpoint(now)

    def resume(self, tenure: TaskTenure[T]) -> Routine:
        yield from self.leaving.resume(tenure)

    def let_go(self, tenure: TaskTenure[T]) -> Routine:
        yield from self.leaving.let_go(tenure)

    def send_now(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        """Send records immediately, regardless of the policy."""
        super()._send(unit, records)

    def _send(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        self.leaving.send(unit, records)

    def _flush(self, unit: Unit) -> None:
        """Flush the emits and acks of a unit, after the calls of other threads."""
        self.outbox.take_over()
        self.leaving.flush(unit)

    def _turn(self) -> list[Effect]:
        self.leaving.before_turn()
        return super()._turn()

    def _report_too_large(self) -> None:
        """Report tuples that do not fit into a record. Their trees were failed."""
        for found in self.outbox.too_large:
            self.journal.error(found.error(), "emitting", found.task)
        self.outbox.too_large.clear()


class ProcessTime:
    """The watermarks of a process. The engine's policy decides when they are sent."""

    def __init__(self, engine: SendingEngine[Any]) -> None:
        self._engine = engine
        self.plan = TimePlan(engine.topology)
        self._sender = MarkSender(engine.topology, self.plan, engine.component)
        self.sends = self._sender.sends
        """True if the tasks send watermarks. Otherwise event time costs a look at this."""
        self._next_look = 0.0

    def marks(self) -> dict[int, Mark]:
        """Return the known watermarks of the tasks at work, by task id."""
        if not self.sends:
            return {}
        tasks = [tenure.task for tenure in self._engine.tenures.values() if tenure.works]
        found = {task.task_id: task.mark(self._engine.now) for task in tasks}
        return {task: mark for task, mark in found.items() if mark != UNKNOWN}

    @property
    def is_due(self) -> bool:
        """True if watermarks should be sent although nothing else is."""
        return bool(self._due())

    def frames(self) -> Sequence[OutgoingRecord]:
        """Return the frames to send now, behind all tuples. Usually there are none."""
        return self.frames_of(self._due())

    def _due(self) -> dict[int, Mark]:
        """Return the watermarks if they should be sent now. An idle process rarely computes them."""
        now = self._engine.now
        if not self._sender.may(now) or now < self._next_look:
            return {}
        marks = self.marks()
        if self._sender.due(marks, now):
            return marks
        self._next_look = now + self._sender.interval
        return {}

    def frames_of(self, marks: dict[int, Mark], at_once: bool = False) -> Sequence[OutgoingRecord]:
        """Return the frames with these watermarks, if they are due."""
        now = self._engine.now
        if not self._sender.due(marks, now, at_once):
            return ()
        return self._sender.frames(marks, now, self._engine.outbox.by)

    def of_tasks(self) -> list[TaskTime]:
        """Return the watermark of each task that takes part in event time, for inspection."""
        tasks = [tenure.task for tenure in self._engine.tenures.values() if tenure.works]
        found = (task.time(self._engine.now) for task in tasks)
        return [time for time in found if time is not None]
