"""Watermarks in a process: how they are computed in spouts, combined in bolts, and sent.

`kstorm.topology.event_time` determines which components take part.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.wire import WRITERS, TupleFrame
from kstorm.topology import Topology
from kstorm.topology.event_time import (
    NEVER,
    UNKNOWN,
    EventTime,
    Latest,
    Mark,
    TellsTime,
    TimePlan,
    lowest,
)

RESEND_SECS: Final = 5.0
"""A watermark is sent again after this time. A bolt without state learns it so after a restart."""
_LONGEST_STEP: Final = 5.0
"""Most seconds of idleness counted at once, so that a paused process does not seem idle."""
_MOST_WAITING: Final = 1000


class Prefix:
    """The latest event time before each offset of a partition.

    The watermark of a partition is the latest time before an offset below which nothing is emitted
    again. So a message that is emitted again is never behind the watermark because of later ones.
    """

    def __init__(self, reached: int = NEVER) -> None:
        """`reached`: the latest time before the first offset, if an earlier run stored it."""
        self._ends: list[int] = []
        self._times: list[int] = []
        self._reached = reached
        self.latest = reached
        """The latest time of all messages that were emitted."""

    def emitted(self, end: int, latest: int) -> None:
        """Record that the messages before the offset `end` are emitted, with their latest time."""
        if latest > self.latest:
            self.latest = latest
            self._ends.append(end)
            self._times.append(latest)

    def before(self, offset: int) -> int:
        """Return the latest known time before an offset."""
        at = bisect_right(self._ends, offset)
        return self._times[at - 1] if at else self._reached

    def forget(self, offset: int) -> None:
        """Drop what is only needed for offsets before this one."""
        at = bisect_right(self._ends, offset)
        if at:
            self._reached = self._times[at - 1]
            del self._ends[:at], self._times[:at]


class Idleness:
    """Decides when an empty source no longer holds the watermark back.

    Time counts in small steps between two looks. So neither a jump of the clock nor a pause of the
    process makes a source idle.
    """

    def __init__(self, after_ms: int | None) -> None:
        self._after = None if after_ms is None else after_ms / 1000
        self._passed = 0.0
        self._looked: float | None = None

    def busy(self) -> None:
        """Record that the source is not empty."""
        self._passed, self._looked = 0.0, None

    def look(self, now: float, empty: bool) -> bool:
        """Return True if the source is idle. `empty`: it has nothing unread or unfinished."""
        step = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        if not empty or self._after is None:
            self._passed = 0.0
            return False
        self._passed += min(max(step, 0.0), _LONGEST_STEP)
        return self._passed > self._after


class SpoutTimes:
    """The watermark of a spout that knows no partitions: all of a task's messages are one.

    With at-least-once processing it does not pass the time before a message that may be emitted
    again. Such a message is in flight, or failed within the last message timeout.
    """

    def __init__(
        self, time: EventTime, latest_of: Callable[[str], Latest], *, holds: bool, patience: float
    ) -> None:
        """`holds`: a message may be emitted again. `patience`: seconds to wait for that."""
        self._latest_of, self._holds, self._patience = latest_of, holds, patience
        self._readers: dict[str, Latest] = {}
        self._idleness = Idleness(time.idle_ms)
        self._latest = NEVER
        self._open: dict[int, int] = {}  # root → the latest time before its message
        self._failed: dict[Hashable, tuple[int, float]] = {}

    def emitted(
        self,
        stream: str,
        rows: Sequence[Sequence[Any]],
        roots: Sequence[int],
        message_ids: Sequence[Any],
    ) -> None:
        """Record emitted tuples. `roots` and `message_ids` are empty if they are not tracked."""
        reader = self._readers.get(stream)
        if reader is None:
            reader = self._readers[stream] = self._latest_of(stream)
        if self._holds:
            before = self._latest
            for root, message_id in zip(roots, message_ids, strict=True):
                self._open[root] = min(before, self._take_failed(message_id))
        self._latest = max(self._latest, reader(rows))
        self._idleness.busy()

    def ended(self, root: int) -> None:
        """Record that a tree is complete."""
        self._open.pop(root, None)

    def failed(self, root: int, message_id: Any, now: float) -> None:
        """Record that a tree failed, so that the spout may emit its message again."""
        before = self._open.pop(root, None)
        if before is not None:
            self._hold(message_id, before, now)

    def refused(self, message_id: Any, now: float) -> None:
        """Record that a message cannot be emitted now, so that the spout may emit it later."""
        if self._holds:
            self._hold(message_id, self._take_failed(message_id), now)

    def mark(self, now: float, empty: bool) -> Mark:
        """Return the watermark. `empty`: the spout had nothing to emit when it was last asked."""
        if self._failed:
            self._failed = {id: one for id, one in self._failed.items() if one[1] > now}
        held = [*self._open.values(), *(before for before, _ in self._failed.values())]
        idle = self._idleness.look(now, empty and not held)
        return Mark(min([self._latest, *held]), idle)

    def _hold(self, message_id: Any, before: int, now: float) -> None:
        held = before, now + self._patience
        try:
            self._failed[message_id] = held
        except TypeError:  # Not hashable: it is held even after the message is emitted again.
            self._failed[object()] = held

    def _take_failed(self, message_id: Any) -> int:
        try:
            before, _ = self._failed.pop(message_id)
        except (KeyError, TypeError):
            return self._latest
        return before


def times_of(
    topology: Topology, component: str, task: int, time: EventTime, holds: bool
) -> SpoutTimes:
    """Return the times of a spout task that computes none itself."""
    spec = topology.component(component)

    def latest_of(stream: str) -> Latest:
        return time.latest(component, stream, task, spec.streams[stream].fields)

    patience = spec.config.message_timeout_secs
    return SpoutTimes(time, latest_of, holds=holds, patience=patience)


class TaskMarks:
    """The watermarks that one bolt task has received.

    A watermark counts once all tuples that came before it are finished. Until then it waits.
    """

    def __init__(self, topology: Topology, plan: TimePlan, component: str, bolt: Any) -> None:
        inputs = plan.inputs(component)
        self._owner = {task: name for name, tasks in inputs.items() for task in tasks}
        self._known: dict[int, Mark] = {}
        self._waiting: deque[tuple[int, int, Mark]] = deque()
        timed = isinstance(bolt, TellsTime) and bolt.event_time is not None
        self.bolt: TellsTime | None = bolt if timed else None
        if self.bolt is not None:
            self.bolt.follow(inputs)

    def arrived(self, frame: TupleFrame, offset: int) -> None:
        """Record the watermarks of a frame at an offset of the input topic."""
        for task, mark in frame.marks.items():
            if task in self._owner:
                self._waiting.append((offset, task, mark))
        if len(self._waiting) > _MOST_WAITING:
            self._waiting = deque(_thinned(self._waiting))

    def apply(self, unfinished: int | None = None) -> None:
        """Let watermarks count that came before the offset `unfinished`, or all of them."""
        waiting, bolt = self._waiting, self.bolt
        while waiting and (unfinished is None or waiting[0][0] < unfinished):
            _, task, mark = waiting.popleft()
            self._known[task] = mark
            if bolt is not None:
                bolt.receive_watermark(self._owner[task], task, mark)

    def store(self) -> None:
        """Put what counts into the state of a bolt that follows watermarks."""
        if self.bolt is not None:
            self.bolt.store_watermarks()

    @property
    def mark(self) -> Mark:
        """The watermark of the task's output."""
        if self.bolt is not None:
            return self.bolt.watermark
        return lowest(self._known.get(task, UNKNOWN) for task in self._owner)

    @property
    def known(self) -> dict[int, Mark]:
        """The watermark of each task of its inputs that sends one."""
        return {task: self._known.get(task, UNKNOWN) for task in self._owner}


def _thinned(waiting: deque[tuple[int, int, Mark]]) -> list[tuple[int, int, Mark]]:
    """Keep the latest watermark of each task. It counts later than the dropped ones would."""
    return list({task: (offset, task, mark) for offset, task, mark in waiting}.values())


class TaskTime(NamedTuple):
    """The watermark of a task, and what holds it back."""

    task: int
    at: int
    """`NEVER` if it is unknown."""
    idle: bool
    inputs: list[tuple[str, Mark]]
    """Its source partitions or input tasks, each with its watermark."""

    @property
    def holder(self) -> tuple[str, Mark] | None:
        """The slowest of its inputs, if any is waited for."""
        active = [one for one in self.inputs if not one[1].idle]
        return min(active, key=lambda one: one[1].at, default=None)


class MarkSender:
    """Decides when a process sends the watermarks of its tasks, and makes the frames.

    A frame has the watermarks of all tasks of the process. There is one for each receiving task.
    """

    def __init__(self, topology: Topology, plan: TimePlan, component: str) -> None:
        self._component = component
        spec = topology.components[component]
        self._places = [
            (topology.bolt_topic(bolt), partition, spec_stream(topology, component, bolt))
            for bolt in plan.targets(component)
            for partition in range(topology.components[bolt].num_tasks)
        ]
        self._format = topology.config.topology_frame_format
        self.interval = spec.config.topology_watermark_interval_ms / 1000
        self.sends = bool(self._places)
        """True if the component sends watermarks at all."""
        self._sent: dict[int, Mark] = {}
        self._next = self._again = 0.0

    def may(self, now: float) -> bool:
        """Return True if watermarks may be sent now, if there are any."""
        return self.sends and now >= self._next

    def due(self, marks: Mapping[int, Mark], now: float, at_once: bool = False) -> bool:
        """Return True if these watermarks should be sent now.

        `at_once` if they leave with other sends.
        """
        if not marks or not self.sends:
            return False
        return now >= self._again or (marks != self._sent and (at_once or now >= self._next))

    def frames(self, marks: Mapping[int, Mark], now: float, by: str) -> list[OutgoingRecord]:
        """Return the frames with these watermarks. `by` is the process that sends them."""
        self._sent = dict(marks)
        self._next, self._again = now + self.interval, now + RESEND_SECS
        task = next(iter(marks))
        write = WRITERS[self._format]
        values = {
            place: write(
                TupleFrame(
                    self._format,
                    self._component,
                    task,
                    stream=place[0],
                    count=0,
                    roots=b"",
                    edges=b"",
                    more={},
                    columns=[[] for _ in range(place[1])],
                    by=by,
                    marks=self._sent,
                )
            )
            for place in {place for _, _, place in self._places}
        }
        return [
            OutgoingRecord(topic, partition, values[place])
            for topic, partition, place in self._places
        ]


def spec_stream(topology: Topology, component: str, bolt: str) -> tuple[str, int]:
    """Return a stream from a component to a bolt, with the number of its fields."""
    stream = next(
        one.stream for one in topology.components[bolt].inputs if one.component == component
    )
    return stream, len(topology.components[component].streams[stream].fields)
