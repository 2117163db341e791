"""The driver's part of reading a batch of `refine` in Python.

Spark's Python workers write the rows as files of silver that no commit includes yet. If all rows
belong in silver, one commit adds the files. Otherwise Spark processes the rows like any others, and
the files are deleted. `maintain` deletes files that a crash leaves behind, as it deletes all files
that no table includes.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.arrow.batch_files import files_read_by
from kstorm_pipeline.arrow.layout_choice import layout_of
from kstorm_pipeline.arrow.worker import silver_of
from kstorm_pipeline.arrow.worker_stats import WorkerStats, merge_stats
from kstorm_pipeline.batch_stats import BatchStats
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.occurrences import NAMED
from kstorm_pipeline.records import rejected
from kstorm_pipeline.setting_values import is_url
from kstorm_pipeline.tables import query_id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.arrow.bucket_files import SilverFile
    from kstorm_pipeline.arrow.record_layout import RecordLayout
    from kstorm_pipeline.json_records import JsonRecords
    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_BYTES_A_TASK = 1_000_000
"""Compressed bytes of bronze. For less, starting a task costs more than sharing the work saves."""
_REST = 20
"""Number of batches that go straight to Spark after a batch with a doubtful record."""
_PLAIN_FEATURES = {"appendOnly", "invariants"}
"""The Delta table features of silver that this writer supports."""


@dataclass(slots=True)
class WrittenBatch:
    """A batch whose rows have been written to files of silver.

    The files that were not committed are deleted when its block ends.
    """

    records: DataFrame
    """Columns as in `read_rows`, without the raw record."""
    _files: list[SilverFile]
    _tables: Tables
    _notes: WorkerStats
    _may_reject: bool = False
    """True if the pipeline has conditions that reject a record. Only Spark can evaluate them."""
    _committed: bool = False

    def survey(self) -> BatchStats | None:
        """Return the statistics of the records, or None if some are rejected."""
        if self._may_reject and facts_of(self.records, sf.count("reason"))[0]:
            return None
        notes = self._notes
        return BatchStats(
            notes.rows, 0, notes.named, notes.sources, notes.named > notes.told, differ=notes.differ
        )

    def commit(self, spark: SparkSession, number: int) -> None:
        """Add the files to silver in one commit that carries the batch.

        Does nothing if silver already has the batch.
        """
        # A commit that raises may still be in the log. Then its files must stay.
        self._committed = True
        log = DeltaLog(spark, self._tables.path("silver"))
        self._committed = log.append([each.add for each in self._files], query_id_of(spark), number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._committed:
            _delete(self._tables, self._files)


class ArrowReader:
    """Reads the batches of one run."""

    def __init__(
        self, spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline
    ) -> None:
        self._tables = tables
        self._pipeline = pipeline
        self._shape = _layout_for(spark, settings, tables, pipeline)
        self._resting = 0

    def read(self, rows: DataFrame, number: int) -> WrittenBatch | None:
        """Read a batch of bronze rows, or return None to leave it to Spark."""
        if self._shape is None or self._rests():
            return None
        bronze = files_read_by(rows)
        spark = rows.sparkSession
        folder = self._tables.path("silver")
        if not bronze:
            return None
        groups = _groups(bronze, spark.sparkContext.defaultParallelism)
        read = partial(silver_of, self._shape, number, folder)
        outcomes = spark.sparkContext.parallelize(groups, len(groups)).map(read).collect()
        files = [each for outcome in outcomes for each in outcome.files]
        doubt = next((outcome.doubt for outcome in outcomes if outcome.doubt), "")
        if doubt:
            logger.info("refine: batch %d: Spark reads it, because %s", number, doubt)
            self._resting = _REST
            _delete(self._tables, files)
            return None
        notes = merge_stats(outcome.notes for outcome in outcomes)
        may_reject = bool(cast("JsonRecords", self._pipeline.records).reject)
        return WrittenBatch(self._frame(spark, files), files, self._tables, notes, may_reject)

    def _rests(self) -> bool:
        self._resting -= 1
        return self._resting >= 0

    def _frame(self, spark: SparkSession, files: list[SilverFile]) -> DataFrame:
        """Return the rows of the files, with the column `reason`."""
        assert self._shape is not None
        folder = self._tables.path("silver")
        schema = _columns(self._shape, cast("JsonRecords", self._pipeline.records))
        rows = spark.read.schema(schema).parquet(*(f"{folder}/{each.path}" for each in files))
        reject = cast("JsonRecords", self._pipeline.records).reject
        return rows.withColumn(
            "reason", rejected(reject) if reject else sf.lit(None).cast("string")
        )


def _layout_for(
    spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline
) -> RecordLayout | None:
    """Return the shape of the records if Python can read them in this deployment, otherwise None."""
    # With other masters the workers may lack this package. They can open paths, but not URLs.
    if is_url(tables.root) or not settings.master.startswith(("local[", "k8s:")):
        return None
    features = DeltaLog(spark, tables.path("silver")).features
    return layout_of(spark, pipeline) if features <= _PLAIN_FEATURES else None


def _columns(shape: RecordLayout, records: JsonRecords) -> StructType:
    """Return the schema of the written files."""
    typed = [StructField(each.name, each.dataType) for each in columns_of(records.schema)]
    if records.key is not None:
        typed.append(StructField(records.key, StringType()))
    own = [each for each in columns_of(NAMED) if each.name != "batch"]
    return StructType([*(each for each in typed if each.name not in shape.without), *own])


def _groups(files: list[str], cores: int) -> list[list[str]]:
    """Divide the files into groups of similar total size."""
    sizes = {each: Path(each).stat().st_size for each in files}
    count = max(1, min(cores, len(files), math.ceil(sum(sizes.values()) / _BYTES_A_TASK)))
    groups: list[tuple[int, list[str]]] = [(0, []) for _ in range(count)]
    for each in sorted(files, key=sizes.__getitem__, reverse=True):
        least = min(range(count), key=lambda place: groups[place][0])
        size, group = groups[least]
        groups[least] = size + sizes[each], [*group, each]
    return [group for _, group in groups if group]


def _delete(tables: Tables, files: list[SilverFile]) -> None:
    for each in files:
        with suppress(OSError):
            Path(f"{tables.path('silver')}/{each.path}").unlink()
