"""Measures how long an active query has been stuck: nothing that Spark changes has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


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

        The caller of `look` itself may hang.
        """
        return now - self._changed


def signs_of(query: StreamingQuery) -> object | None:
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
