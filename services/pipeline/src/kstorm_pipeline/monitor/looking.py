"""Looks, every few seconds and in a thread of its own, at what no batch tells: how far the tables are behind, the last audits."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.monitor.lag import Lag
from kstorm_pipeline.places import names_in, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from kstorm_pipeline.monitor.metrics import Metrics

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 10.0


@contextmanager
def looking(
    looks: Mapping[str, Callable[[], None]], every: float = _EVERY_SECONDS
) -> Iterator[None]:
    """For as long as the block lasts, take these looks, by what each is at.

    Kafka or a storage that does not answer ends nothing here: the query that needs it says so if it stays away.
    """
    done = threading.Event()

    def look() -> None:
        while True:
            for at, take in looks.items():
                try:
                    take()
                except (PipelineError, Py4JError, OSError, ValueError) as error:
                    if not done.is_set():
                        logger.warning("%s cannot be told: %s", at, _line(error))
            if done.wait(every):
                return

    thread = threading.Thread(target=look, name="looking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(every)


def at_lag(metrics: Metrics, lags: Mapping[str, Callable[[], Lag]]) -> None:
    """Look at what each table lacks of the one before it, and show what it lacks of the topic."""
    lag = Lag()
    for table, find in lags.items():
        lag += find()
        metrics.show_lag(table, lag)


def at_audits(metrics: Metrics, spark: SparkSession, place: str) -> None:
    """Look at what audits have noted in these files, and show it."""
    for topology in names_in(spark, place):
        metrics.show_complete_until(topology, float(text_of(spark, f"{place}/{topology}")))


def _line(error: Exception) -> str:
    exception = getattr(error, "java_exception", None)
    text = str(error) if exception is None else str((exception.getCause() or exception).toString())
    return text.splitlines()[0] if text else type(error).__name__
