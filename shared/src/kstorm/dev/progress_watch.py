"""Progress of a running topology by component: the sums of the services' `/status` responses.

A process that dies loses its counters and restarts at zero. The last counters of each run are kept,
so that sums never decrease. They miss at most the counts between the last query and the death.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.runtime.service.status_counters import StatusCounters, last_error, run_key

_WINDOW_SECS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ComponentProgress:
    """State of one component at one moment."""

    component: str
    kind: str
    """`spout`, `bolt` or `acker`. Empty until one of its processes has responded."""
    processes: int
    """Number of processes that should run."""
    ready: int
    """Number of processes that are ready."""
    total: StatusCounters
    """Metrics since the start."""
    recent: StatusCounters
    """Metrics of the last `recent_secs`. For `pending` it is the growth in that time."""
    recent_secs: float
    last_error: str
    """Type and task of the newest error of all processes, including dead ones. Empty if there was
    none."""
    last_error_age: float | None
    """Seconds since the last error."""


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """State of all components at one moment, spouts first, ackers last."""

    components: Sequence[ComponentProgress]
    down: Sequence[str]
    """Names of processes that do not respond or are not ready."""

    @property
    def spouts(self) -> list[ComponentProgress]:
        """The spouts, which count completed and failed trees."""
        return [state for state in self.components if state.kind == "spout"]

    @property
    def acked(self) -> int:
        """Completed trees."""
        return sum(spout.total.acked for spout in self.spouts)

    @property
    def failed(self) -> int:
        """Trees that failed or timed out."""
        return sum(spout.total.failed for spout in self.spouts)

    @property
    def emitted(self) -> int:
        """Started trees."""
        return sum(spout.total.emitted for spout in self.spouts)

    @property
    def acked_per_second(self) -> float:
        """Trees completed per second recently."""
        return sum(
            spout.recent.acked / spout.recent_secs for spout in self.spouts if spout.recent_secs
        )

    @property
    def complete_latency_counts(self) -> list[int]:
        """Histogram of complete latencies (emit to ack of a tree) since the start."""
        return list(sum((spout.total for spout in self.spouts), StatusCounters()).latency_counts)


class ProgressWatch:
    """Polls the workers of a topology. `look` queries all of them, and takes up to 2 s if one does
    not respond."""

    def __init__(self, processes: LocalProcesses) -> None:
        self._processes = processes
        self._lives: dict[str, _ProcessLives] = {}
        self._history: deque[tuple[float, dict[str, StatusCounters]]] = deque()
        self.statuses: Mapping[str, dict[str, Any] | None] = {}
        """Each worker's `/status` from the last `look`."""

    def look(self) -> ProgressSnapshot:
        """Query every worker and add up the responses."""
        workers = list(self._processes.workers)
        statuses = self.statuses = self._processes.statuses()
        now = time.monotonic()
        for worker in workers:
            self._lives.setdefault(worker.name, _ProcessLives()).learn(
                statuses.get(worker.name), now
            )
        by_component: dict[str, list[Worker]] = {}
        for worker in workers:
            by_component.setdefault(worker.component, []).append(worker)
        totals = {
            component: sum((self._lives[worker.name].total for worker in of_it), StatusCounters())
            for component, of_it in by_component.items()
        }
        since, before = self._remember(now, totals)
        states = [
            self._state(
                component,
                of_it,
                totals[component],
                before.get(component, StatusCounters()),
                now,
                since,
            )
            for component, of_it in by_component.items()
        ]
        states.sort(key=lambda state: ("spout", "bolt", "acker", "").index(state.kind))
        return ProgressSnapshot(
            states, [worker.name for worker in workers if not self._lives[worker.name].ready]
        )

    def _remember(
        self, now: float, totals: dict[str, StatusCounters]
    ) -> tuple[float, dict[str, StatusCounters]]:
        """Store the totals, and return those of some seconds ago for comparison."""
        self._history.append((now, totals))
        while len(self._history) > 2 and self._history[1][0] <= now - _WINDOW_SECS:
            self._history.popleft()
        return self._history[0]

    def _state(
        self,
        component: str,
        workers: list[Worker],
        total: StatusCounters,
        before: StatusCounters,
        now: float,
        since: float,
    ) -> ComponentProgress:
        lives = [self._lives[worker.name] for worker in workers]
        failed_at, error = max(life.last_error for life in lives)
        return ComponentProgress(
            component,
            next((life.kind for life in lives if life.kind), ""),
            len(workers),
            sum(life.ready for life in lives),
            total,
            total - before,
            now - since,
            error,
            now - failed_at if error else None,
        )


class _ProcessLives:
    """The counters of one worker over all its restarts."""

    def __init__(self) -> None:
        self.kind = ""
        self.last_error = (0.0, "")
        """Time of the last error by this process's clock, and its type and task. Empty if there was
        none."""
        self.ready = False
        self._life = (0, 0.0)
        self._past = self._present = StatusCounters()

    @property
    def total(self) -> StatusCounters:
        return self._past + self._present

    def learn(self, status: Mapping[str, Any] | None, now: float) -> None:
        self.ready = status is not None and not status["not_ready"]
        if status is None:
            self._present = replace(self._present, pending=0)  # its tasks may have moved
            return
        if run_key(status) != self._life:
            self._past, self._life = self._past + replace(self._present, pending=0), run_key(status)
        self._present = StatusCounters.of(status)
        self.kind = status["kind"]
        if status["last_error"]:
            self.last_error = now - status["last_error_age"], last_error(status)
