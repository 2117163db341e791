"""Watches running queries: logs their batches, and lets the current ones finish after a stop."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from kstorm_pipeline.monitor.metrics import Metrics
    from kstorm_pipeline.monitor.monitor import Monitor

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1
_SILENT_SECONDS = 5.0
"""If an active query reports no batch for this long, that is logged."""
_STOP_SECONDS = 45.0
"""Time limit for the current batches after a stop. Kubernetes kills the pod after 60 s."""


def watch(
    queries: Sequence[StreamingQuery],
    stop: threading.Event,
    monitor: Monitor,
    ending: threading.Event,
) -> None:
    """Watch the queries until all have ended or `stop` is set, and report to the monitor.

    No query is active afterwards. `ending` is set before a query is stopped, possibly in the middle
    of a batch. Raises StreamingQueryException as soon as a query has failed.
    """
    monitor.follow(str(query.name) for query in queries)
    logs = [_Log(query, monitor.metrics) for query in queries]
    try:
        active = len(queries)
        while active and not stop.is_set():
            active = 0
            for query, log in zip(queries, logs, strict=True):
                active += not query.awaitTermination(_POLL_SECONDS)
                log.look()
                monitor.look(query)
        if stop.is_set():
            logger.info("stopping after the current batch")
            _finish_batches(queries)
    finally:
        ending.set()
        for query in queries:
            query.stop()


class _Log:
    """Logs and counts the batches of one query, each once."""

    def __init__(self, query: StreamingQuery, metrics: Metrics) -> None:
        self._query, self._metrics = query, metrics
        self._batch = -1
        self._began = self._spoke = time.monotonic()
        logger.info("%s: reading", query.name)

    def look(self) -> None:
        """Log the batches since the last call, or that the current batch takes long."""
        now = time.monotonic()
        for progress in self._query.recentProgress:
            # An idle query reports progress every ten seconds with the number of its next batch.
            if progress.batchId > self._batch and "addBatch" in progress.durationMs:
                self._batch = progress.batchId
                self._began = self._spoke = now
                seconds = progress.batchDuration / 1000
                self._metrics.add_batch(str(progress.name), progress.numInputRows, seconds)
                if progress.numInputRows:
                    logger.info(
                        "%s: batch %d: %d rows, %.1f s",
                        progress.name,
                        progress.batchId,
                        progress.numInputRows,
                        seconds,
                    )
        if not (self._query.isActive and self._query.status["isTriggerActive"]):
            self._began = self._spoke = now
        elif now - self._spoke >= _SILENT_SECONDS:
            self._spoke = now
            logger.info(
                "%s: the current batch has taken %.0f s so far", self._query.name, now - self._began
            )


def _finish_batches(queries: Sequence[StreamingQuery]) -> None:
    """Wait until each query is between two batches.

    Stopping at any other moment is safe too, but makes Spark log errors.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    in_hand = [_last_batch(query) for query in queries]
    for query, batch in zip(queries, in_hand, strict=True):
        while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == batch:
            if time.monotonic() > deadline:
                return
            query.awaitTermination(_POLL_SECONDS)


def _last_batch(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else query.lastProgress.batchId
