"""What a running topology has done so far, by component: the services' `/status` pages, added up.

The rule: what was counted stays counted. A process that dies loses its counters and begins again at zero. The last
figures of each life are kept, so sums never go down; they miss at most what happened between the last look and the
death.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kstorm.local.cluster import LocalProcesses, Worker
from kstorm.runtime.service.figures import Figures, last_error, life_of

_WINDOW_SECS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ComponentState:
    """One component at one moment."""

    component: str
    kind: str
    """`spout`, `bolt` or `acker`; empty until a process of it has answered."""
    processes: int
    """How many there should be."""
    ready: int
    """How many of them do their share."""
    total: Figures
    """Since the start."""
    recent: Figures
    """In the last `recent_secs` (`pending`: how much it grew)."""
    recent_secs: float
    last_error: str
    """The newest of all its processes, those that died since included: its type and its task; empty if there was none."""
    last_error_age: float | None
    """Seconds since then."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All components at one moment, spouts first, ackers last."""

    components: Sequence[ComponentState]
    down: Sequence[str]
    """Processes that do not answer or are not ready, by name."""

    @property
    def spouts(self) -> list[ComponentState]:
        """The spouts, which know how trees ended."""
        return [state for state in self.components if state.kind == "spout"]

    @property
    def acked(self) -> int:
        """Trees completed."""
        return sum(spout.total.acked for spout in self.spouts)

    @property
    def failed(self) -> int:
        """Trees failed or timed out."""
        return sum(spout.total.failed for spout in self.spouts)

    @property
    def emitted(self) -> int:
        """Trees begun."""
        return sum(spout.total.emitted for spout in self.spouts)

    @property
    def acked_per_second(self) -> float:
        """Trees completed a second, lately."""
        return sum(
            spout.recent.acked / spout.recent_secs for spout in self.spouts if spout.recent_secs
        )

    @property
    def complete_latency_counts(self) -> list[int]:
        """From emit to ack of a tree, since the start, as a histogram."""
        return list(sum((spout.total for spout in self.spouts), Figures()).latency_counts)


class Watch:
    """Looks at the workers of a topology. `look` asks all of them, and takes up to 2 s if one does not answer."""

    def __init__(self, processes: LocalProcesses) -> None:
        self._processes = processes
        self._lives: dict[str, _Lives] = {}
        self._history: deque[tuple[float, dict[str, Figures]]] = deque()
        self.statuses: Mapping[str, dict[str, Any] | None] = {}
        """What each worker said at the last look."""

    def look(self) -> Snapshot:
        """Ask every worker and add up."""
        workers = list(self._processes.workers)
        statuses = self.statuses = self._processes.statuses()
        now = time.monotonic()
        for worker in workers:
            self._lives.setdefault(worker.name, _Lives()).learn(statuses.get(worker.name), now)
        by_component: dict[str, list[Worker]] = {}
        for worker in workers:
            by_component.setdefault(worker.component, []).append(worker)
        totals = {
            component: sum((self._lives[worker.name].total for worker in of_it), Figures())
            for component, of_it in by_component.items()
        }
        since, before = self._remember(now, totals)
        states = [
            self._state(
                component, of_it, totals[component], before.get(component, Figures()), now, since
            )
            for component, of_it in by_component.items()
        ]
        states.sort(key=lambda state: ("spout", "bolt", "acker", "").index(state.kind))
        return Snapshot(
            states, [worker.name for worker in workers if not self._lives[worker.name].ready]
        )

    def _remember(self, now: float, totals: dict[str, Figures]) -> tuple[float, dict[str, Figures]]:
        """The totals of some seconds ago, to compare with."""
        self._history.append((now, totals))
        while len(self._history) > 2 and self._history[1][0] <= now - _WINDOW_SECS:
            self._history.popleft()
        return self._history[0]

    def _state(
        self,
        component: str,
        workers: list[Worker],
        total: Figures,
        before: Figures,
        now: float,
        since: float,
    ) -> ComponentState:
        lives = [self._lives[worker.name] for worker in workers]
        failed_at, error = max(life.last_error for life in lives)
        return ComponentState(
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


class _Lives:
    """One worker over all its restarts."""

    def __init__(self) -> None:
        self.kind = ""
        self.last_error = (0.0, "")
        """By this process's clock when it was, and what it was; empty if there was none."""
        self.ready = False
        self._life = (0, 0.0)
        self._past = self._present = Figures()

    @property
    def total(self) -> Figures:
        return self._past + self._present

    def learn(self, status: Mapping[str, Any] | None, now: float) -> None:
        self.ready = status is not None and not status["not_ready"]
        if status is None:
            self._present = replace(self._present, pending=0)  # its tasks may be another's by now
            return
        if life_of(status) != self._life:
            self._past, self._life = self._past + replace(self._present, pending=0), life_of(status)
        self._present = Figures.of(status)
        self.kind = status["kind"]
        if status["last_error"]:
            self.last_error = now - status["last_error_age"], last_error(status)
