"""Kill processes with SIGKILL while the topology works, one after the other, starting in the middle
of the run.

Work must be in flight when a process is killed. So some messages are held back for each kill and
for each return of a process. They are released just before the kill, and the kill waits until the
topology is processing some of them. The next process is killed when the previous one is back and
trees are completed again.
"""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kstorm.dev.local_processes import LocalProcesses, Worker

_BEGIN: Final = 0.5
_MOMENT_SECS: Final = 0.1
_FREE: Final = 0.6
"""The share of the messages that is not held back."""
_IN_FLIGHT: Final = 50
"""A kill waits until this number of trees is open, or all remaining ones if there are fewer."""
_PATIENCE_SECS: Final = 3.0
"""A kill does not wait longer than this."""


@dataclass
class Kill:
    """One process that was killed."""

    worker: Worker
    pid: int
    """The process id that was killed."""
    starts: int
    """The number of starts of the process before the kill."""
    at: float
    """Time of the decision to kill, in seconds of the caller's clock."""
    killed_at: float = 0.0
    """Unix time of the kill, in seconds."""
    back_after: float | None = None
    """Seconds until the process was ready again."""


class Kills:
    """Kills one process of each component of `victims` in turn. `messages` is the number of messages of the run."""

    def __init__(self, processes: LocalProcesses, victims: Sequence[str], messages: int) -> None:
        self.done_so_far: list[Kill] = []
        self._processes, self._victims, self._messages = processes, victims, messages
        self._returns = self._acked_at_return = 0
        self._armed_at: float | None = None

    @property
    def done(self) -> bool:
        """True if every victim was killed and is back."""
        return self._returns == len(self._victims)

    @property
    def may_be_produced(self) -> int:
        """The number of messages that may be produced so far. The rest is held back for the next
        kills."""
        steps = 2 * len(self._victims) - 1  # the last kill releases everything
        taken = len(self.done_so_far) + self._returns + (self._armed_at is not None)
        if taken >= max(steps, 0):
            return self._messages
        return math.ceil(self._messages * (_FREE + (1 - _FREE) * taken / steps))

    def step(self, acked: int, open_trees: int, now: float) -> list[str]:
        """Do the steps that are due, and return the lines to print. `acked` trees are complete, and
        `open_trees` are not."""
        if len(self.done_so_far) > self._returns:
            return self._look_for(self.done_so_far[-1], acked, now)
        if self._armed_at is None:
            if not self.done and self._is_due(acked):
                self._armed_at = now
            return []
        enough = open_trees >= min(_IN_FLIGHT, self._messages - acked)
        if enough or now - self._armed_at > _PATIENCE_SECS:
            self._armed_at = None
            return [self._kill(self._victims[len(self.done_so_far)], now)]
        return []

    def _is_due(self, acked: int) -> bool:
        if not self.done_so_far:
            return acked >= _BEGIN * self._messages
        return acked > self._acked_at_return or acked >= self.may_be_produced

    def _kill(self, component: str, now: float) -> str:
        worker = max(self._processes.of(component), key=_tasks)
        # A process responds to a status request between two pieces of work. It should not always be
        # killed at that point.
        time.sleep(random.uniform(0, _MOMENT_SECS))
        process = worker.process
        self.done_so_far.append(Kill(worker, process.pid, process.starts, now, time.time()))
        process.kill()
        return f"SIGKILL to {worker.name}, process {self.done_so_far[-1].pid}"

    def _look_for(self, kill: Kill, acked: int, now: float) -> list[str]:
        process = kill.worker.process
        status = kill.worker.status() if process.starts > kill.starts else None
        if status is None or status["pid"] == kill.pid or status["not_ready"]:
            return []
        kill.back_after = now - kill.at
        self._returns += 1
        self._acked_at_return = acked
        return [
            f"{kill.worker.name} is back at work after {kill.back_after:.1f} s, as process {status['pid']}"
        ]


def _tasks(worker: Worker) -> int:
    status = worker.status()
    return 0 if status is None else len(status["tasks"])
