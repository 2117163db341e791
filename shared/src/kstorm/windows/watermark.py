"""The watermark of a windowed bolt: the time up to which all tuples are assumed to have arrived."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kstorm.topology import Source
from kstorm.topology.event_time import NEVER, UNKNOWN, Mark, lowest


class Watermark:
    """The watermark of one task. It is the lowest of all tasks of its inputs, minus a lag.

    Some components send their watermarks. The time of others is the highest time of their tuples.
    Times are Unix milliseconds. `now` is the machine's clock, which only matters for idle inputs.
    """

    def __init__(
        self,
        lag_ms: int,
        idle_ms: int | None,
        inputs: Mapping[tuple[str, str], Sequence[int]],
        sending: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """`inputs` are components and their streams, with their tasks. `sending` are the components
        that send their watermarks.

        The watermark waits for the first watermark of each task that sends one. From other
        components, it waits for the first tuple of each stream and of each task.
        """
        self._lag, self._idle = lag_ms, idle_ms
        self.received: dict[int, Mark] = {}
        """The watermark of each task that has sent one."""
        self._sending = {task for tasks in (sending or {}).values() for task in tasks}
        silent = {
            place: tasks for place, tasks in inputs.items() if place[0] not in (sending or {})
        }
        self._unheard = set(silent)
        self._tasks = {task for tasks in silent.values() for task in tasks}
        self._began: int | None = None
        self.reached: dict[int, int] = {}
        """Highest time of each task that has sent a tuple and sends no watermarks."""
        self._heard: dict[int, int] = {}
        self.at = NEVER
        """The watermark. It never goes back."""

    def note(self, source: Source, time: int, now: int) -> None:
        """Record a tuple's source and time."""
        task = source.task
        if task in self._sending:
            return
        self._heard[task] = now
        if self._unheard:
            self._unheard.discard((source.component, source.stream))
        if time > self.reached.get(task, NEVER):
            self.reached[task] = time

    def advance(self, now: int) -> bool:
        """Recompute the watermark and return True if it has moved.

        An idle input task does not hold it back. If all are idle, the latest one counts.
        """
        self._began = now if self._began is None else self._began
        marks = [self.received.get(task, UNKNOWN) for task in self._sending]
        found = lowest([*marks, *self._waited(now)]).at
        if found == NEVER or found - self._lag <= self.at:
            return False
        self.at = found - self._lag
        return True

    def holders(self) -> Iterable[tuple[int, Mark]]:
        """Return the tasks of its inputs, each with the last known time."""
        for task in sorted(self._sending):
            yield task, self.received.get(task, UNKNOWN)
        for task in sorted(self._tasks):
            yield task, Mark(self.reached.get(task, NEVER))

    def stored(self) -> list[Any]:
        return [self.at, list(self.reached.items()), sorted(self._unheard)]

    def restore(self, stored: list[Any]) -> None:
        """Restore stored data. The idle time of an input task starts at the next `advance`.

        Tasks that the topology no longer has are dropped. `received` is stored elsewhere.
        """
        self.at = stored[0]
        self.reached = {task: time for task, time in stored[1] if task in self._tasks}
        self._unheard &= {(component, stream) for component, stream in stored[2]}

    def _waited(self, now: int) -> Iterable[Mark]:
        """Yield the times of the tasks that send no watermarks."""
        if self._unheard:
            yield self._unless_idle(NEVER, self._began, now)
        for task in self._tasks:
            if task in self.reached:
                heard = self._heard.setdefault(task, now)
                yield self._unless_idle(self.reached[task], heard, now)
            else:
                yield self._unless_idle(NEVER, self._began, now)

    def _unless_idle(self, time: int, since: int | None, now: int) -> Mark:
        if self._idle is not None and since is not None and now - since >= self._idle:
            return Mark(time, idle=True)
        return Mark(time)
