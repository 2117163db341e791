"""Describes each table: its columns, its size, its last batch and its declaration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kstorm_pipeline.checkpoints import query_id
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.pipeline import DEFINITION
from kstorm_pipeline.report import check_there

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables


def describe(
    spark: SparkSession, settings: Settings, tables: Tables, name: str | None
) -> Iterator[dict[str, object]]:
    """Describe one table, or all. Raises PipelineError if the table does not exist."""
    check_there(spark, tables, name)
    for each in [name] if name else tables.names(spark):
        yield _describe(spark, settings, tables, each)


def _describe(
    spark: SparkSession, settings: Settings, tables: Tables, name: str
) -> dict[str, object]:
    log = DeltaLog(spark, tables.path(name))
    query = query_id(spark, settings, "bronze" if name == "bronze" else "refine")
    found: dict[str, object] = {
        "table": name,
        "path": tables.path(name),
        "rows": tables.count(spark, name),
        "files": log.files,
        "bytes": log.bytes,
        "version": log.version,
        "last_batch": None if query is None else log.last_batch(query),
        "columns": {
            each.name: each.dataType.simpleString() for each in tables.read(spark, name).schema
        },
    }
    declared = log.property(DEFINITION)
    return found if declared is None else {**found, "definition": json.loads(declared)}
