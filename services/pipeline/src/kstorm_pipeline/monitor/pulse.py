"""Whether a query at work gets on: for how long nothing of it has changed that changes whenever Spark does something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Pulse:
    """The signs of life of one query. Times are of a monotonic clock, in seconds."""

    def __init__(self, now: float) -> None:
        self._seen: object = None
        self._changed = now
        self.begun = False
        """Whether the query has once done all that there was to do."""

    def look(self, signs: object | None, now: float) -> None:
        """Take what there is to see of a query at work, whatever it is; None of one that waits for its time."""
        if signs is None or signs != self._seen:
            self._seen = signs
            self._changed = now

    def still_for(self, now: float) -> float:
        """Seconds without a change. They pass without a look too: who looks may be what hangs."""
        return now - self._changed


def signs_of(query: StreamingQuery) -> object | None:
    """What changes while a query is at work: its step, its batch, its jobs and their tasks; None while it waits for its time."""
    status = query.status
    if not status["isTriggerActive"]:
        return None
    progress = query.lastProgress
    return status["message"], None if progress is None else progress.batchId, _tasks(query)


def _tasks(query: StreamingQuery) -> tuple[Any, ...]:
    """The newest job of the query, and how many tasks of its stages are at work or done."""
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
