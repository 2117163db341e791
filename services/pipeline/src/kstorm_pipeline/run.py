"""Runs the two queries: start, watch, stop.

`available-now` drains the topic into bronze, then bronze into the other tables, and exits.
`continuous` runs both queries concurrently until SIGTERM or SIGINT, and then finishes the current
batch. Both can be killed at any moment: see `refine`.
"""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from kstorm_pipeline.arrow.batches import ArrowReader
from kstorm_pipeline.audit.findings import COMPLETE
from kstorm_pipeline.checkpoints import check_checkpoints, checkpoint, has_begun
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.failures import blame, explain, last_raised
from kstorm_pipeline.high_water_marks import HighWaterMarks
from kstorm_pipeline.monitor.bronze_lag import BronzeLag
from kstorm_pipeline.monitor.metric_polling import at_audits, at_lag, polling_metrics
from kstorm_pipeline.monitor.monitor import Monitor
from kstorm_pipeline.monitor.topic_lag import TopicLag
from kstorm_pipeline.query_watch import watch
from kstorm_pipeline.rebuild import find_rebuilt, put_in_place
from kstorm_pipeline.refine import refine
from kstorm_pipeline.row_reading import chosen_before, note_choice
from kstorm_pipeline.schemas import check_tables, definitions, find_schemas, note_definitions
from kstorm_pipeline.topic_identity import client_options, open_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kstorm_pipeline.monitor.metrics import Metrics
    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.refine import Refined
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables
    from kstorm_pipeline.topic_identity import TopicIdentity

logger = logging.getLogger(__name__)

_PATIENCE = {"fetchOffset.numRetries": "3", "kafkaConsumer.pollTimeoutMs": "45000"}
"""Tolerance for a Kafka outage: three requests may time out, and a poll may take as long as the
three."""
_BYTES_PER_BATCH = "64m"
"""The most bytes of bronze, in compressed files, that a batch of `refine` reads."""


def run(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    pipeline: Pipeline,
    monitor: Monitor | None = None,
) -> None:
    """Bring the pipeline's tables up to date with the topic, or with `continuous` keep them so.

    Reports to the monitor. Raises PipelineError if a query fails, or if checkpoints or pipeline do
    not match the tables. Also raises it if a signal arrives before `available-now` has read
    everything. Nothing is lost then: the next run continues.
    """
    monitor = monitor or Monitor(settings.stalled_seconds)
    pipeline = pipeline.begun(settings, chosen_before(spark, settings, tables))
    schemas = find_schemas(spark, pipeline)
    rebuilt = find_rebuilt(spark, settings, tables, pipeline, schemas)
    check_checkpoints(spark, settings, tables, pipeline, rebuilt)
    check_tables(spark, tables, pipeline, schemas, rebuilt)
    with open_identity(spark, settings, tables) as origin, _signals() as stop:
        for name in rebuilt:
            put_in_place(spark, settings, tables, pipeline.golds[name], schemas)
        tables.create(spark, schemas, definitions(pipeline) | {"bronze": origin.properties})
        note_definitions(spark, tables, pipeline)
        note_choice(spark, tables, pipeline)
        origin.settle(begun=has_begun(spark, settings, "bronze"))
        monitor.metrics.show_tables(list(schemas))
        with _looks_taken(spark, settings, tables, monitor.metrics):
            _follow(spark, settings, tables, pipeline, _Running(origin, monitor, stop))


class _EndedError(Exception):
    """The query was stopped in the middle of a batch, which the next run repeats."""


@dataclass(frozen=True, slots=True)
class _Running:
    """State shared by the queries of a run."""

    origin: TopicIdentity
    monitor: Monitor
    stop: threading.Event
    problems: list[PipelineError] = field(default_factory=list)
    """Errors raised inside a query. Spark keeps only the text of an exception."""
    blames: list[str] = field(default_factory=list)
    """One line for each exception of the user's functions."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when the queries stop, even in the middle of a batch."""

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record an exception before it is raised to Spark.

        An exception that is due to the stop is not recorded but replaced by a short one. Spark
        searches the whole traceback as text, and prints a thousand lines if it is too long.
        """
        try:
            yield
        except Exception as error:
            if self.ending.is_set():
                raise _EndedError from None
            self._note(error)
            raise

    def _note(self, error: Exception) -> None:
        if isinstance(error, PipelineError):
            self.problems.append(error)
        else:
            self.blames.extend(filter(None, [blame(error)]))


def _follow(
    spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline, running: _Running
) -> None:
    """Start the queries, sequentially or concurrently, and watch them until they end."""
    starts = [
        partial(_bronze, spark, settings, tables, running),
        partial(_refine, spark, settings, tables, pipeline, running),
    ]
    for stage in [[start] for start in starts] if settings.trigger == "available-now" else [starts]:
        running.ending.clear()
        try:
            watch([start() for start in stage], running.stop, running.monitor, running.ending)
        except StreamingQueryException as error:
            raise _explained(error, settings, running) from error
        if running.stop.is_set() and settings.trigger == "available-now":
            raise PipelineError(
                "stopped before everything was read; run again to continue from here"
            )


@contextmanager
def _looks_taken(
    spark: SparkSession, settings: Settings, tables: Tables, metrics: Metrics
) -> Iterator[None]:
    """Show the metrics that no batch reports within the block, if the HTTP port is enabled."""
    if not settings.http_port:
        yield
        return
    bronze = BronzeLag(spark, settings, tables.path("bronze"))
    with closing(TopicLag(spark, settings)) as topic:
        looks = {
            "the lag of the tables": partial(
                at_lag, metrics, {"bronze": topic.find, "silver": bronze.find}
            ),
            "the results of the last audits": partial(
                at_audits, metrics, spark, tables.path(COMPLETE)
            ),
        }
        with polling_metrics(looks):
            yield


def _bronze(
    spark: SparkSession, settings: Settings, tables: Tables, running: _Running
) -> StreamingQuery:
    """Start the query from the topic to bronze.

    Spark's checkpoint and Delta's log together write each (partition, offset) exactly once.
    """

    def copy(rows: DataFrame, number: int) -> None:
        with running.noting():
            running.origin.check()
            # Kafka writes -1 for a record without a timestamp.
            at = sf.when(sf.unix_millis("timestamp") >= 0, sf.col("timestamp"))
            tables.append("bronze", rows.withColumn("timestamp", at), number)

    options = {
        **_PATIENCE,
        "subscribe": settings.topic,
        "startingOffsets": settings.starting_offsets,
        "maxOffsetsPerTrigger": str(settings.max_records_per_batch),
        "includeHeaders": "true",
        "failOnDataLoss": str(not settings.allow_data_loss).lower(),
    }
    options |= {f"kafka.{name}": value for name, value in client_options(settings).items()}
    source = spark.readStream.format("kafka").options(**options).load()
    return _start(source.writeStream.foreachBatch(copy), "bronze", settings)


def _refine(
    spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline, running: _Running
) -> StreamingQuery:
    """Start the query from bronze to all other tables."""
    # `maintain` deletes only rows that have been read, so its commits can be skipped.
    options = {"maxBytesPerTrigger": _BYTES_PER_BATCH, "skipChangeCommits": "true"}
    source = spark.readStream.format("delta").options(**options).load(tables.path("bronze"))
    marks, arrow = HighWaterMarks(tables), ArrowReader(spark, settings, tables, pipeline)

    def write(rows: DataFrame, number: int) -> None:
        with running.noting():
            refined = refine(tables, pipeline, rows, number, marks, arrow)
            running.monitor.metrics.add_refined(refined)
            _watch_quarantine(running.monitor.metrics, refined, number, settings.quarantine_percent)

    return _start(source.writeStream.foreachBatch(write), "refine", settings)


def _start(writer: DataStreamWriter, name: str, settings: Settings) -> StreamingQuery:
    writer = writer.queryName(name).option("checkpointLocation", checkpoint(settings, name))
    if settings.trigger == "continuous":
        writer = writer.trigger(
            processingTime=f"{round(settings.interval_seconds * 1000)} milliseconds"
        )
    else:
        writer = writer.trigger(availableNow=True)
    return writer.start()


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Turn SIGTERM and SIGINT into an event."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explained(
    error: StreamingQueryException, settings: Settings, running: _Running
) -> PipelineError:
    """Return one line about an error that a user can fix. Log the full text of any other first."""
    text = str(error)
    if not running.problems and "failOnDataLoss" in text:
        with suppress(PipelineError), running.noting():
            running.origin.check()
    if running.problems:
        return running.problems[0]
    if "long overflow" in text and (places := running.origin.records_after_all_time()):
        return PipelineError(
            f"Spark cannot read records of the topic {settings.topic!r} whose Kafka timestamp is "
            f"after the year 294247: the first are at {'; '.join(places)}. "
            "Delete the records up to these (kafka-delete-records) and give --allow-data-loss true "
            "once. The topic's message.timestamp.after.max.ms prevents further ones"
        )
    if "UnknownTopicOrPartitionException" in text:
        return PipelineError(
            f"there is no topic {settings.topic!r} at {settings.bootstrap_servers}: "
            "create it or correct --topic"
        )
    if "failOnDataLoss" in text:
        return PipelineError(
            f"the topic {settings.topic!r} no longer has some records that were not read yet;"
            " --allow-data-loss true continues without them"
        )
    if line := explain(text, settings):
        return PipelineError(line)
    logger.error("%s", text)
    return PipelineError(
        f"a query failed: {running.blames[0] if running.blames else last_raised(text)}"
    )


def _watch_quarantine(metrics: Metrics, refined: Refined, number: int, percent: float) -> None:
    """Warn, and count the batch, if more than `percent` of its records were quarantined."""
    quarantined = refined.rows.get("quarantine", 0)
    if not quarantined or quarantined * 100 <= refined.size * percent:
        return
    metrics.add_mostly_quarantined()
    logger.warning(
        "refine: batch %d: %d of %d records cannot be read, more than %g %% "
        "(--quarantine-percent), for example: %s. Check that the pipeline's declaration matches "
        "this topic. The records are in the table quarantine, each with its reason",
        number,
        quarantined,
        refined.size,
        percent,
        refined.reason,
    )
