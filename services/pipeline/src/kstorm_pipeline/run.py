"""Running the two queries: start, watch, stop.

`available-now` drains the topic into bronze, then bronze into the rest, and ends. `continuous` runs both side by side
until SIGTERM or SIGINT, and then lets the batch in hand finish. Neither depends on a good end: see `refine`.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from kstorm_pipeline.checkpoints import check_checkpoints, checkpoint
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.refine import refine
from kstorm_pipeline.watch import watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 5.0
"""How long one bootstrap server may take to answer."""
_BYTES_PER_BATCH = "64m"
"""How much of bronze, in compressed files, a batch of `refine` takes at most."""


def run(spark: SparkSession, settings: Settings, tables: Tables) -> None:
    """Bring the tables up to date with the topic, or keep them so, as the trigger says.

    Raises PipelineError if a query fails, if the checkpoints do not belong to the tables, or if a signal comes before
    `available-now` is through (nothing is lost; the next run goes on from there).
    """
    check_checkpoints(spark, settings, tables)
    tables.create(spark)
    stages = [[_bronze], [_refine]] if settings.trigger == "available-now" else [[_bronze, _refine]]
    with _signals() as stop:
        for stage in stages:
            try:
                watch([start(spark, settings, tables) for start in stage], stop)
            except StreamingQueryException as error:
                raise _explained(error, settings) from error
            if stop.is_set() and settings.trigger == "available-now":
                raise PipelineError("stopped before everything was read; run again to go on from here")


def _bronze(spark: SparkSession, settings: Settings, tables: Tables) -> StreamingQuery:
    """Topic to bronze. Spark's checkpoint and Delta's sink together write each (partition, offset) exactly once."""
    options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": settings.topic,
        "startingOffsets": settings.starting_offsets,
        "maxOffsetsPerTrigger": str(settings.max_records_per_batch),
        "includeHeaders": "true",
        "failOnDataLoss": str(not settings.allow_data_loss).lower(),
    }
    options |= {f"kafka.{name.removeprefix('kafka.')}": value for name, value in settings.kafka_options.items()}
    source = spark.readStream.format("kafka").options(**options).load()
    rows = source.select("key", "value", "topic", "partition", "offset", "timestamp", "headers")
    writer = rows.writeStream.format("delta").outputMode("append").option("path", tables.path("bronze"))
    return _start(writer, "bronze", settings)


def _refine(spark: SparkSession, settings: Settings, tables: Tables) -> StreamingQuery:
    """Bronze to all other tables."""
    source = spark.readStream.format("delta").option("maxBytesPerTrigger", _BYTES_PER_BATCH).load(tables.path("bronze"))
    return _start(
        source.writeStream.foreachBatch(lambda rows, number: refine(tables, rows, number)), "refine", settings
    )


def _start(writer: DataStreamWriter, name: str, settings: Settings) -> StreamingQuery:
    writer = writer.queryName(name).option("checkpointLocation", checkpoint(settings, name))
    if settings.trigger == "continuous":
        writer = writer.trigger(processingTime=f"{round(settings.interval_seconds * 1000)} milliseconds")
    else:
        writer = writer.trigger(availableNow=True)
    return writer.start()


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Turn SIGTERM and SIGINT into an event."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explained(error: StreamingQueryException, settings: Settings) -> PipelineError:
    """One line for what a person can mend; the full text of anything else goes to the log first."""
    text = str(error)
    if "UnknownTopicOrPartitionException" in text:
        return PipelineError(
            f"there is no topic {settings.topic!r} at {settings.bootstrap_servers}: create it or correct --topic"
        )
    if "failOnDataLoss" in text:
        return PipelineError(
            f"the topic {settings.topic!r} no longer has records that were not read yet;"
            " --allow-data-loss true goes on without them"
        )
    logger.error("%s", text)
    return PipelineError(f"a query failed: {text.splitlines()[0]}")


def check_brokers(settings: Settings) -> None:
    """Raise PipelineError if no bootstrap server takes a connection: Spark would need minutes to find out."""
    reasons = []
    for server in settings.bootstrap_servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or error}")
        else:
            return
    raise PipelineError(f"no Kafka broker answers ({'; '.join(reasons)}); is it up and --bootstrap-servers right?")
