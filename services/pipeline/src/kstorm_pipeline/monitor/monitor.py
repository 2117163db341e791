"""Collects the reports of a run, and answers whether it is alive and ready."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from kstorm_pipeline.monitor.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming.query import StreamingQuery

_READY_SHARE = 0.1
"""The share of the limit for "dead" after which a stuck query is not ready."""


class StallDetector:
    """The progress of one query. Times are in seconds of a monotonic clock."""

    def __init__(self, now: float) -> None:
        self._seen: object = None
        self._changed = now
        self.begun = False
        """True once the query has processed everything that was available."""

    def look(self, signs: object | None, now: float) -> None:
        """Compare the query's state with the last one. None: it waits for its next trigger."""
        if signs is None or signs != self._seen:
            self._seen = signs
            self._changed = now

    def still_for(self, now: float) -> float:
        """Return the seconds since the last change. They also pass while `look` is not called.

        The caller of `look` may be what hangs.
        """
        return now - self._changed


class Monitor:
    """Monitors a run. It is dead if an active query makes no progress for `stalled_seconds`."""

    def __init__(self, stalled_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.metrics = Metrics()
        self._stalled, self._clock = stalled_seconds, clock
        self._pulses: dict[str, StallDetector] = {}

    def follow(self, names: Iterable[str]) -> None:
        """Watch the queries of these names instead of the previous ones."""
        self._pulses = {name: self._pulse(name) for name in names}

    def _pulse(self, name: str) -> StallDetector:
        pulse = StallDetector(self._clock())
        self.metrics.show_still(name, lambda: pulse.still_for(self._clock()))
        return pulse

    def look(self, query: StreamingQuery) -> None:
        """Record the progress of one of these queries."""
        signs = _signs_of(query)
        self.note(str(query.name), signs, begun=signs is None or query.lastProgress is not None)

    def note(self, name: str, signs: object | None, *, begun: bool) -> None:
        """Record a query's signs of life, or None while it waits for its next trigger.

        `begun` means that it has once processed everything that was available.
        """
        pulse = self._pulses[name]
        pulse.look(signs, self._clock())
        pulse.begun = pulse.begun or begun

    @property
    def stalled(self) -> str | None:
        """The reason to restart the process, or None."""
        return self._still(self._stalled)

    @property
    def not_ready(self) -> str | None:
        """The reason why the tables do not follow the topic at present, or None if they do."""
        pulses = self._pulses
        if not pulses:
            return "starting"
        waiting = [name for name, pulse in pulses.items() if not pulse.begun]
        return self._still(self._stalled * _READY_SHARE) or (
            f"{waiting[0]} is at its first batch" if waiting else None
        )

    def _still(self, limit: float) -> str | None:
        now = self._clock()
        for name, pulse in self._pulses.items():
            seconds = pulse.still_for(now)
            if seconds > limit:
                return f"{name} has made no progress for {seconds:.0f} s"
        return None


def _signs_of(query: StreamingQuery) -> object | None:
    """Return the query's step, batch, job and tasks, which change as it works. None if it waits."""
    status = query.status
    if not status["isTriggerActive"]:
        return None
    progress = query.lastProgress
    return status["message"], None if progress is None else progress.batchId, _tasks(query)


def _tasks(query: StreamingQuery) -> tuple[Any, ...]:
    """Return the query's newest job, and the task counts of its stages."""
    tracker = SparkSession.active().sparkContext.statusTracker()
    newest = max(tracker.getJobIdsForGroup(str(query.runId)), default=None)
    job = None if newest is None else tracker.getJobInfo(newest)
    if job is None:
        return ()
    stages = filter(None, map(tracker.getStageInfo, job.stageIds))
    return (
        newest,
        job.status,
        *((each.numActiveTasks, each.numCompletedTasks, each.numFailedTasks) for each in stages),
    )
