"""Whether a topology makes progress, by what its processes say at `/status` all the time.

It serves to time the faults and to say how soon work continues. What is lost or repeated is not looked for here.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kstorm.local.cluster import LocalProcesses
from kstorm.local.watch import Snapshot, Watch
from kstorm.runtime.service.figures import life_of

_YOUNG_SECS: Final = 3.0

_Work = tuple[tuple[int, float], int]


class Pulse:
    """Call `look` a few times a second. `tasks` is how many tasks each component has."""

    def __init__(self, processes: LocalProcesses, tasks: Mapping[str, int]) -> None:
        self._processes, self._tasks = processes, tasks
        self._watch = Watch(processes)
        self._before: dict[str, _Work] = {}
        self._acked = self._goal = 0
        self._moved = time.monotonic()
        self._statuses: Mapping[str, dict[str, Any] | None] = {}
        self.longest_stop = 0.0
        """Most seconds without a completed tree since `reset`."""
        self.snapshot: Snapshot

    def look(self) -> Snapshot:
        self.snapshot = self._watch.look()
        self._statuses = self._watch.statuses
        self.longest_stop = max(self.longest_stop, self.stopped_for)
        if self.snapshot.acked > self._acked:
            self._acked, self._moved = self.snapshot.acked, time.monotonic()
        return self.snapshot

    @property
    def stopped_for(self) -> float:
        """Seconds since the last completed tree was seen."""
        return time.monotonic() - self._moved

    def reset(self) -> None:
        """From now on something is broken."""
        self._before = {
            name: _work(status) for name, status in self._statuses.items() if status is not None
        }
        self._goal = self._acked + sum(spout.total.pending for spout in self.snapshot.spouts)
        self._moved = time.monotonic()
        self.longest_stop = 0.0

    @property
    def works_again(self) -> bool:
        """Whether more trees were completed since `reset` than were open then, and every task is a process's that has worked
        since, be it another process or another life of the same."""
        running: defaultdict[str, set[int]] = defaultdict(set)
        for worker in list(self._processes.workers):
            running[worker.component].update(self._tasks_at_work(worker.name))
        return self._acked > self._goal and all(
            len(running[name]) == count for name, count in self._tasks.items()
        )

    def calm_since(self, moment: float) -> bool:
        """Whether every process is ready, and no message that was there at a moment of the steady clock is unfinished."""
        sources = [
            status.get("source", {})
            for status in self._statuses.values()
            if status and status["kind"] == "spout"
        ]
        return (
            time.monotonic() > moment + _YOUNG_SECS
            and not self.snapshot.down
            and bool(sources)
            and all(
                source.get("partitions")
                and not source["retries"]
                and source["oldest_pending_seconds"] < _YOUNG_SECS
                for source in sources
            )
        )

    def _tasks_at_work(self, name: str) -> Sequence[int]:
        status = self._statuses.get(name)
        if status is None:
            return []
        life, work = _work(status)
        life_before, work_before = self._before.get(name, ((0, 0.0), 0))
        tasks: Sequence[int] = status["tasks"]
        return tasks if work > (work_before if life == life_before else 0) else []


def _work(status: Mapping[str, Any]) -> _Work:
    """The life of a process, and what it has done in it: nothing while it waits for Kafka."""
    return life_of(status), status.get("acked" if status["kind"] == "spout" else "executed", 0)
