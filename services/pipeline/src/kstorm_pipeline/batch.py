"""A batch of bronze rows that is being refined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstorm_pipeline.row_reading import good_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.arrow.batches import WrittenBatch
    from kstorm_pipeline.batch_stats import BatchStats
    from kstorm_pipeline.high_water_marks import HighWaterMarks
    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.tables import Tables


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: its records and their statistics."""

    tables: Tables
    pipeline: Pipeline
    number: int
    """The batch's number in the query's checkpoint. The same rows always have the same number."""
    rows: DataFrame
    """The bronze rows."""
    records: DataFrame
    """The result of `read_rows` for them without the raw record: persisted, or from `written`."""
    facts: BatchStats
    """Statistics of the records."""
    marks: HighWaterMarks
    """The high-water marks of silver."""
    written: WrittenBatch | None = None
    """The records as files of silver, if Python has read them."""

    @property
    def spark(self) -> SparkSession:
        """The session of this query. Its configuration affects no other query."""
        return self.records.sparkSession

    @property
    def good(self) -> DataFrame:
        """The readable records, including replays."""
        return good_rows(self.pipeline, self.records)
