"""Converts rows of bronze to typed rows, as the pipeline declares, and to rows of silver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.checkpoints import has_half_a_batch
from kstorm_pipeline.ddl import columns_of, quoted
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.json_records import FIELDS, JsonRecords
from kstorm_pipeline.occurrences import NAMED, name_occurrences
from kstorm_pipeline.pipeline import BatchReader, RunReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.pipeline import Pipeline, Reader
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns of bronze."""
_CHOICE = "kstorm.reader"
"""The property of silver that stores the choice of the last run's reader."""


def chosen_before(spark: SparkSession, settings: Settings, tables: Tables) -> str | None:
    """Return the choice of the last run's reader, if that run left a batch unfinished."""
    if not (tables.exists(spark, "silver") and has_half_a_batch(spark, settings, "refine")):
        return None
    return tables.properties(spark, "silver").get(_CHOICE)


def note_choice(spark: SparkSession, tables: Tables, pipeline: Pipeline) -> None:
    """Store the choice of this run's reader in silver."""
    choice = pipeline.records.choice if isinstance(pipeline.records, BatchReader) else ""
    if choice and tables.properties(spark, "silver").get(_CHOICE) != choice:
        tables.set_properties(spark, "silver", {_CHOICE: choice})


def _reader_of(pipeline: Pipeline, rows: DataFrame) -> Reader:
    """Return the reader of these rows. If it examines batches, it has examined this one."""
    records = pipeline.records
    assert not isinstance(records, RunReader), "the run has begun"
    return records.prepare(rows) if isinstance(records, BatchReader) else records


def read_rows(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Return rows with `record`, `reason` (null if good), the typed columns and those of `NAMED`.

    The typed columns are meaningful only where `reason` is null.
    """
    wrapped = rows.select(sf.struct(*RECORD).alias("record"))
    read = _reader_of(pipeline, rows)(wrapped)
    if "record" not in read.columns:
        raise PipelineError(
            "the pipeline's records: the function left out the column `record`; "
            "keep it, and add columns to the rows"
        )
    if "reason" not in read.columns:
        read = read.withColumn("reason", sf.lit(None).cast("string"))
    remedy = FIELDS if isinstance(pipeline.records, JsonRecords) else ""
    _check_names("the pipeline's records", read.columns, remedy)
    for whose, names in (("identity", pipeline.identity_columns), ("without", pipeline.without)):
        lacking = [name for name in names if name not in read.columns]
        if lacking:
            raise PipelineError(
                f"the pipeline's {whose} names {lacking[0]!r}, which is not a column of its records"
            )
    return name_occurrences(read, pipeline.identity_columns)


def good_rows(pipeline: Pipeline, records: DataFrame) -> DataFrame:
    """Return the readable rows of `read_rows`, with the columns for silver."""
    return records.where(sf.col("reason").isNull()).drop("reason", *pipeline.without)


def refine_rows(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Apply the pipeline's silver function to good rows. Check that required columns remain."""
    if pipeline.silver_function is None:
        return rows
    made = pipeline.silver_function(rows)
    kept = [name for name in (*named_columns(), "replay") if name in rows.columns]
    lost = [name for name in kept if name not in made.columns]
    if lost:
        raise PipelineError(
            f"the silver function {pipeline.silver_function.__name__} left out {', '.join(lost)}: "
            "change its rows with withColumn, where and drop, or select '*' too"
        )
    typed = [name for name in made.columns if name not in kept]
    _check_names(f"the rows of the silver function {pipeline.silver_function.__name__}", typed)
    return made.select(*quoted(typed), *kept)


def malformed_rows(rows: DataFrame, records: DataFrame) -> DataFrame:
    """Return the unreadable rows of bronze unchanged, each with the reason.

    `records` is the result of `read_rows` for them.
    """
    # A single timestamp beyond the year 9999 would make the whole table unreadable in Python. So
    # only the reason contains it.
    malformed = records.where(sf.col("reason").isNotNull()).select(
        sf.col("kafka_partition").alias("partition"),
        sf.col("kafka_offset").alias("offset"),
        sf.col("kafka_timestamp").alias("timestamp"),
        "reason",
    )
    # Join by position. Spark would parse the records once more for each use of a reason from a
    # second `read_rows`.
    fields = [name for name in RECORD if name != "timestamp"]
    return (
        rows.drop("timestamp")
        .join(malformed, ["partition", "offset"])
        .select(*fields, "timestamp", "reason")
    )


def _check_names(whose: str, names: list[str], remedy: str = "") -> None:
    """Raise PipelineError if a user's column would collide with one of the pipeline's.

    Spark treats `Batch` and `batch` as the same name.
    """
    own = {*columns_of(NAMED).names, "replay"}
    taken = [name for name in names if name.lower() in own]
    if taken:
        raise PipelineError(
            f"{whose} have a column {taken[0]!r}, but silver has its own: rename it{remedy}"
        )


def named_columns() -> list[str]:
    """Return the columns of `NAMED` that a record has before it is assigned to a batch."""
    return [name for name in columns_of(NAMED).names if name != "batch"]
