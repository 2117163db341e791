"""The watermarks of a process: what its tasks have, and when they are sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.watermarks import MarkSender, TaskTime
from kstorm.topology.event_time import UNKNOWN, Mark, TimePlan

if TYPE_CHECKING:
    from kstorm.core.engine.sending import SendingEngine


class ProcessTime:
    """A part of a `SendingEngine`, whose policy decides when watermarks leave."""

    def __init__(self, engine: "SendingEngine[Any]") -> None:
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
