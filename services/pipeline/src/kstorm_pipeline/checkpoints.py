"""Locates the queries' checkpoints, and checks that they match the tables.

A checkpoint and the tables that its query writes belong together. Without its checkpoint a query
starts over and would write everything again. Without a table it would continue, and the table's
earlier rows would be missing. So the pipeline starts only if a query has both or neither.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.storage import list_names, read_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

ANEW = (
    "rebuild all tables except bronze: "
    "delete the checkpoint refine, silver, quarantine and the gold tables"
)


def checkpoint(settings: Settings, query: str) -> str:
    """Return the directory or URL of a query's checkpoint."""
    return f"{settings.checkpoint_root}/{query}"


def written_by(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Return the names of the queries, each with the tables that it writes."""
    return {"bronze": ("bronze",), "refine": ("silver", "quarantine", *pipeline.golds)}


def check_checkpoints(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    pipeline: Pipeline,
    rebuilt: Collection[str] = (),
) -> None:
    """Raise PipelineError if a query has a checkpoint without tables, or rows without a checkpoint.

    A gold table may be missing if it was `rebuilt` next to the others, or if silver is empty.
    """
    for query, names in written_by(pipeline).items():
        place = checkpoint(settings, query)
        remedy = (
            f"restore it, or delete {place} and the tables {', '.join(names)}, "
            "and the next run rebuilds them"
        )
        if has_begun(spark, settings, query):
            missing = [
                name for name in names if name not in rebuilt and not tables.exists(spark, name)
            ]
            if missing and missing[0] in pipeline.golds:
                if tables.is_empty(spark, "silver"):
                    continue
                remedy = f"restore it, or {how_to_build(pipeline, missing[0])}"
            if missing:
                raise PipelineError(
                    f"the table {tables.path(missing[0])} is missing, but its checkpoint exists: "
                    f"{remedy}"
                )
        else:
            for name in names:
                if tables.exists(spark, name) and not tables.is_empty(spark, name):
                    raise PipelineError(
                        f"the checkpoint {place} is missing, but its table {name} has rows: {remedy}"
                    )


def how_to_build(pipeline: Pipeline, name: str) -> str:
    """Return the remedy for a table whose rows don't match the pipeline."""
    if name not in pipeline.golds:
        return ANEW
    if pipeline.golds[name].replays:
        return (
            f"{ANEW} (`rebuild` cannot build {name}: "
            "it has replays=True, and silver has no replays)"
        )
    return (
        f"rebuild it from silver with `rebuild {name}`, even during a run with the old pipeline, "
        "and start again"
    )


def has_half_a_batch(spark: SparkSession, settings: Settings, query: str) -> bool:
    """Return True if the query's last batch is not committed. The next run starts with it."""
    folders = (f"{checkpoint(settings, query)}/{folder}" for folder in ("offsets", "commits"))
    begun, done = (
        {name for name in list_names(spark, folder) if name.isdigit()} for folder in folders
    )
    return not begun <= done


def has_begun(spark: SparkSession, settings: Settings, query: str) -> bool:
    return query_id(spark, settings, query) is not None


def first_unread(spark: SparkSession, settings: Settings) -> int:
    """Return the first version of bronze that `refine` may not have read fully, 0 if unknown."""
    text = last_done(spark, settings, "refine")
    if text is None:
        return 0
    position = json.loads(text)
    return 0 if position["isStartingVersion"] else int(position["reservoirVersion"])


def last_done(spark: SparkSession, settings: Settings, query: str) -> str | None:
    """Return the end offset of the last committed batch, in its source's format, or None."""
    place = checkpoint(settings, query)
    done = [int(name) for name in list_names(spark, f"{place}/commits") if name.isdigit()]
    return read_text(spark, f"{place}/offsets/{max(done)}").splitlines()[-1] if done else None


def query_id(spark: SparkSession, settings: Settings, query: str) -> str | None:
    """Return the id that identifies the query's batches, or None if it has no checkpoint."""
    try:
        # Spark writes this file before a query's first batch.
        found = spark.read.text(f"{checkpoint(settings, query)}/metadata").first()
    except AnalysisException:
        return None
    return None if found is None else str(json.loads(found[0])["id"])
