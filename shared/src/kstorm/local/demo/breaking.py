"""Kills processes while the topology works: SIGKILL, one after the other, beginning halfway.

The rule: something is in flight when a process dies. So some messages are kept back for each death and for each return.
The next process dies when the one before is back and trees are being completed again.
"""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kstorm.local.cluster import LocalProcesses, Worker

_BEGIN: Final = 0.5
_MOMENT_SECS: Final = 0.3
_FREE: Final = 0.6  # the share of the messages that is not held back


@dataclass
class Death:
    """One process that was killed."""

    worker: Worker
    pid: int
    """Of the life that was ended."""
    starts: int
    """How often it had been started by then."""
    at: float
    """When that was decided, in seconds of the caller's clock."""
    killed_at: float = 0.0
    """When it was done, in seconds of Unix time."""
    back_after: float | None = None
    """Seconds until its next life was ready."""


class Breaker:
    """Kills one process of each component of `victims` in turn. `messages` is how many there will be."""

    def __init__(self, processes: LocalProcesses, victims: Sequence[str], messages: int) -> None:
        self.deaths: list[Death] = []
        self._processes, self._victims, self._messages = processes, victims, messages
        self._returns = self._acked_at_return = 0

    @property
    def done(self) -> bool:
        """Whether all are dead that should be, and back."""
        return self._returns == len(self._victims)

    @property
    def may_be_produced(self) -> int:
        """How many messages may be out by now, so that some are left for what is still to come."""
        steps, taken = 2 * len(self._victims) - 1, len(self.deaths) + self._returns
        if taken >= steps:
            return self._messages
        return math.ceil(self._messages * (_FREE + (1 - _FREE) * taken / steps))

    def step(self, acked: int, now: float) -> list[str]:
        """Do what is due now, `acked` trees being complete; return what there is to say."""
        said: list[str] = []
        if len(self.deaths) > self._returns:
            said += self._look_for(self.deaths[-1], acked, now)
        elif not self.done and self._is_due(acked):
            said.append(self._kill(self._victims[len(self.deaths)], now))
        return said

    def _is_due(self, acked: int) -> bool:
        if not self.deaths:
            return acked >= _BEGIN * self._messages
        return acked > self._acked_at_return or acked >= self.may_be_produced

    def _kill(self, component: str, now: float) -> str:
        worker = max(self._processes.of(component), key=_tasks)
        time.sleep(
            random.uniform(0, _MOMENT_SECS)
        )  # not just when it has answered, which it does between two pieces of work
        process = worker.process
        self.deaths.append(Death(worker, process.pid, process.starts, now, time.time()))
        process.kill()
        return f"SIGKILL to {worker.name}, process {self.deaths[-1].pid}"

    def _look_for(self, death: Death, acked: int, now: float) -> list[str]:
        process = death.worker.process
        status = death.worker.status() if process.starts > death.starts else None
        if status is None or status["pid"] == death.pid or status["not_ready"]:
            return []
        death.back_after = now - death.at
        self._returns += 1
        self._acked_at_return = acked
        return [
            f"{death.worker.name} is back at work after {death.back_after:.1f} s, as process {status['pid']}"
        ]


def _tasks(worker: Worker) -> int:
    status = worker.status()
    return 0 if status is None else len(status["tasks"])
