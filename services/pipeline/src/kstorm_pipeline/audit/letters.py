"""Reads which messages are among a topology's dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.coverage import Intervals
from kstorm_pipeline.audit.kafka import read_topic
from kstorm_pipeline.audit.window import within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from kstorm_pipeline.audit.checks import Letters
    from kstorm_pipeline.audit.window import AuditWindow
    from kstorm_pipeline.settings import Settings


def read_letters(
    spark: SparkSession, settings: Settings, windows: Iterable[AuditWindow]
) -> Letters:
    """Return the offsets of the windows that have, or had, a dead letter.

    The key of a discarded letter is still in the topic, without a value.
    """
    rows = read_topic(spark, settings, f"{settings.topology}.__dead_letters")
    said = sf.from_json(
        sf.col("value").cast("string"), "topic STRING, partition INT, offset BIGINT"
    )
    written = rows.where("value IS NOT NULL").select(said.alias("said")).select("said.*")
    discarded = rows.where("value IS NULL").selectExpr("split(CAST(key AS STRING), '/') AS parts")
    discarded = discarded.where("size(parts) > 3").selectExpr(
        "parts[0] AS topic",
        "try_cast(parts[1] AS INT) AS partition",
        "try_cast(parts[2] AS BIGINT) AS offset",
    )
    found = within(written.unionByName(discarded), windows)
    letters: Letters = {}
    for row in found.distinct().toLocalIterator():
        letters.setdefault((row["topic"], row["partition"]), Intervals()).add(
            row["offset"], row["offset"] + 1
        )
    return letters
