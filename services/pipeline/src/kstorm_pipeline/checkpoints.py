"""Where the queries keep what they have done, and the check that it belongs to the tables.

A checkpoint and the tables its query writes are one thing in two places. Without its checkpoint a query starts anew and
would write all again; without a table it would go on and leave out what the table held. So the pipeline starts only if
a query has both or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables


def checkpoint(settings: Settings, query: str) -> str:
    """The directory or URL of a query's checkpoint."""
    return f"{settings.checkpoint_root}/{query}"


def written_by(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """The queries by name, each with the tables that it writes."""
    return {"bronze": ("bronze",), "refine": ("silver", "quarantine", *pipeline.golds)}


def check_checkpoints(spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline) -> None:
    """Raise PipelineError if a query has a checkpoint without tables, or tables with rows without a checkpoint."""
    for query, names in written_by(pipeline).items():
        place = checkpoint(settings, query)
        remedy = f"put it back, or delete {place} and the tables {', '.join(names)} to have them built anew"
        if has_begun(spark, settings, query):
            for name in names:
                if not tables.exists(spark, name):
                    raise PipelineError(f"the table {tables.path(name)} is missing, its checkpoint is not: {remedy}")
        else:
            for name in names:
                if tables.exists(spark, name) and not tables.is_empty(spark, name):
                    raise PipelineError(f"the checkpoint {place} is missing, its table {name} is not: {remedy}")


def has_begun(spark: SparkSession, settings: Settings, query: str) -> bool:
    """Whether the query has a checkpoint."""
    try:
        spark.read.text(
            f"{checkpoint(settings, query)}/metadata"
        )  # Spark writes this file before a query's first batch
    except AnalysisException:
        return False
    return True
