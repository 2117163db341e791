"""Following running queries: what they do goes to the log, and a stop lets the batch in hand finish."""

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
"""After this long without news from a query that is at work, the log says so."""
_STOP_SECONDS = 45.0
"""How long the batches in hand may take after a stop; less than the 60 s after which Kubernetes kills."""


def watch(
    queries: Sequence[StreamingQuery],
    stop: threading.Event,
    monitor: Monitor,
    ending: threading.Event,
) -> None:
    """Follow the queries until all have ended or `stop` is set; none is active afterwards. What they do is told to the monitor.
    `ending` is set before one is ended that may be amid a batch.

    Raises StreamingQueryException as soon as one has failed.
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
            logger.info("stopping after the batch in hand")
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
        """Log the batches since the last look; if there are none for a while, that one is at work."""
        now = time.monotonic()
        for progress in self._query.recentProgress:
            # A query that idles says so every ten seconds, with the number of the batch that is still to come.
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
            logger.info("%s: at work on a batch for %.0f s", self._query.name, now - self._began)


def _finish_batches(queries: Sequence[StreamingQuery]) -> None:
    """Wait until each query is between two batches. A stop at any other moment is safe too, but Spark logs errors then."""
    deadline = time.monotonic() + _STOP_SECONDS
    in_hand = [_last_batch(query) for query in queries]
    for query, batch in zip(queries, in_hand, strict=True):
        while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == batch:
            if time.monotonic() > deadline:
                return
            query.awaitTermination(_POLL_SECONDS)


def _last_batch(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else query.lastProgress.batchId
