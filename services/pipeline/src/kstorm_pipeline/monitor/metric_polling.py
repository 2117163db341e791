"""Polls, on its own thread, the metrics that no batch reports: lag of tables and last audits."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.monitor.lag import TableLag
from kstorm_pipeline.storage import list_names, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from kstorm_pipeline.monitor.metrics import Metrics

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 10.0


@contextmanager
def polling_metrics(
    looks: Mapping[str, Callable[[], None]], every: float = _EVERY_SECONDS
) -> Iterator[None]:
    """Call the functions in `looks` every `every` seconds within the block.

    The keys name them in the log. Errors of Kafka or the storage are only logged. If an outage
    lasts, the query that depends on it fails.
    """
    done = threading.Event()

    def look() -> None:
        while True:
            for at, take in looks.items():
                try:
                    take()
                except (PipelineError, Py4JError, OSError, ValueError) as error:
                    if not done.is_set():
                        logger.warning("cannot update %s: %s", at, _line(error))
            if done.wait(every):
                return

    thread = threading.Thread(target=look, name="looking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(every)


def at_lag(metrics: Metrics, lags: Mapping[str, Callable[[], TableLag]]) -> None:
    """Compute each table's lag behind the one before it, and show its lag behind the topic."""
    lag = TableLag()
    for table, find in lags.items():
        lag += find()
        metrics.show_lag(table, lag)


def at_audits(metrics: Metrics, spark: SparkSession, place: str) -> None:
    """Show the times that audits have stored in the files of this folder."""
    for topology in list_names(spark, place):
        metrics.show_complete_until(topology, float(read_text(spark, f"{place}/{topology}")))


def _line(error: Exception) -> str:
    exception = getattr(error, "java_exception", None)
    text = str(error) if exception is None else str((exception.getCause() or exception).toString())
    return text.splitlines()[0] if text else type(error).__name__
