"""Event time of a single task. The tasks of bolts and spouts inherit it."""

from typing import ClassVar

from kstorm.core.watermarks import SpoutTimes, TaskMarks, TaskTime, times_of
from kstorm.topology import BasicBolt, Bolt, Spout, Topology
from kstorm.topology.event_time import UNKNOWN, Mark, TellsTime, Timed, TimePlan


class BoltTime:
    """The watermarks that a bolt task follows."""

    topology: Topology
    component: str
    task_id: int
    bolt: Bolt | BasicBolt
    marks: TaskMarks | None = None
    """The watermarks of its inputs, if any has one."""

    def follow_time(self, plan: TimePlan) -> None:
        """Follow watermarks from now on, if an input has one. Called before the bolt is prepared."""
        if plan.inputs(self.component):
            self.marks = TaskMarks(self.topology, plan, self.component, self.bolt)

    def first_unfinished(self) -> int | None:
        """Return the offset of the first frame with a tuple that may still cause output, if any.

        With at-least-once processing, the spout's watermark waits for all of them.
        """
        return None

    def mark(self, _now: float) -> Mark:
        """Return the watermark of the task's output."""
        if self.marks is not None:
            return self.marks.mark
        return self.bolt.watermark if isinstance(self.bolt, TellsTime) else UNKNOWN

    def time(self, _now: float) -> TaskTime | None:
        """Return the task's watermark and what it waits for. None without event time."""
        bolt = self.bolt
        if isinstance(bolt, TellsTime) and bolt.event_time is not None:
            at, marks = Mark(bolt.reached), dict(bolt.holders())
        elif self.marks is not None:
            at, marks = self.marks.mark, self.marks.known
        else:
            return None
        names = {task: self.topology.locate_task(task)[0] for task in marks}
        inputs = [(f"task {task} of {names[task]}", mark) for task, mark in marks.items()]
        return TaskTime(self.task_id, *at, inputs)


class SpoutTime:
    """The watermark that a spout task computes."""

    topology: Topology
    component: str
    task_id: int
    spout: Spout
    active: bool
    throttled: bool
    times: SpoutTimes | None = None
    """The watermark, for a spout that does not compute it itself."""
    emits = True
    """False if `next_tuple` had nothing to emit."""
    repeats: ClassVar[bool] = True
    """True if the spout may emit a message again."""

    def tell_time(self, plan: TimePlan) -> None:
        """Compute watermarks from now on, if they are used. Called before the spout is opened."""
        time = plan.spouts.get(self.component)
        if time is not None and not isinstance(self.spout, Timed):
            self.times = times_of(self.topology, self.component, self.task_id, time, self.repeats)

    def mark(self, now: float) -> Mark:
        """Return the task's watermark."""
        if self.times is not None:
            return self.times.mark(now, self.active and not (self.throttled or self.emits))
        return self.spout.watermark() if isinstance(self.spout, Timed) else UNKNOWN

    def time(self, now: float) -> TaskTime | None:
        """Return the task's watermark and what it waits for. None without event time."""
        mark = self.mark(now)
        places = list(self.spout.holders()) if isinstance(self.spout, Timed) else []
        if self.times is None and not places and mark == UNKNOWN:
            return None
        return TaskTime(self.task_id, *mark, places)
