"""Watches a topology's progress through the `/status` of its processes.

It serves to time the faults and to report how soon work continues. It does not look for lost or
repeated output.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.progress_watch import ProgressSnapshot, ProgressWatch
from kstorm.runtime.service.status_counters import run_key

_YOUNG_SECS: Final = 3.0

_Work = tuple[tuple[int, float], int]


class RecoveryWatch:
    """Call `look` a few times per second. `tasks` is the number of tasks of each component."""

    def __init__(self, processes: LocalProcesses, tasks: Mapping[str, int]) -> None:
        self._processes, self._tasks = processes, tasks
        self._watch = ProgressWatch(processes)
        self._before: dict[str, _Work] = {}
        self._acked = self._goal = 0
        self._moved = time.monotonic()
        self._statuses: Mapping[str, dict[str, Any] | None] = {}
        self.longest_stop = 0.0
        """The most seconds without a completed tree since `reset`."""
        self.snapshot: ProgressSnapshot

    def look(self) -> ProgressSnapshot:
        self.snapshot = self._watch.look()
        self._statuses = self._watch.statuses
        self.longest_stop = max(self.longest_stop, self.stopped_for)
        if self.snapshot.acked > self._acked:
            self._acked, self._moved = self.snapshot.acked, time.monotonic()
        return self.snapshot

    @property
    def stopped_for(self) -> float:
        """Seconds since a tree was last seen to complete."""
        return time.monotonic() - self._moved

    def reset(self) -> None:
        """Start timing: something is broken now."""
        self._before = {
            name: _work(status) for name, status in self._statuses.items() if status is not None
        }
        self._goal = self._acked + sum(spout.total.pending for spout in self.snapshot.spouts)
        self._moved = time.monotonic()
        self.longest_stop = 0.0

    @property
    def works_again(self) -> bool:
        """True once work continues after `reset`.

        More trees have then been completed than were open, and every task is with a process that
        has worked since. That may be another process, or the same one after a restart.
        """
        running: defaultdict[str, set[int]] = defaultdict(set)
        for worker in list(self._processes.workers):
            running[worker.component].update(self._tasks_at_work(worker.name))
        return self._acked > self._goal and all(
            len(running[name]) == count for name, count in self._tasks.items()
        )

    def calm_since(self, moment: float) -> bool:
        """Return True if every process is ready, and no message from before `moment` is unfinished.

        `moment` is a value of the monotonic clock.
        """
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
    """Return a process's run id and its work in that run. It does none while it waits for Kafka."""
    return run_key(status), status.get("acked" if status["kind"] == "spout" else "executed", 0)
