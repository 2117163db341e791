"""Reads which messages, and tuples of which messages, are among a topology's dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.audit import frames
from kstorm_pipeline.audit.coverage import Intervals
from kstorm_pipeline.audit.kafka import read_topic, unless_missing
from kstorm_pipeline.audit.window import within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row, SparkSession

    from kstorm_pipeline.audit.checks import Letters
    from kstorm_pipeline.audit.window import AuditWindow
    from kstorm_pipeline.settings import Settings

_LETTER = """
    topic STRING, partition INT, offset BIGINT, component STRING, kind STRING, roots ARRAY<STRING>,
    error STRUCT<type: STRING, component: STRING>
"""
_ORIGINS = "root BIGINT, topic STRING, partition INT, offset BIGINT"


class _NoAckersError(Exception): ...


def read_letters(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the records of the dead letters' topic.

    The columns are `key`, `letter` (the offset), `discarded`, and `said` (the content).
    """
    said = sf.from_json(sf.col("value").cast("string"), _LETTER).alias("said")
    return read_topic(spark, settings, f"{settings.topology}.__dead_letters").select(
        sf.col("key").cast("string"),
        sf.col("offset").alias("letter"),
        sf.col("value").isNull().alias("discarded"),
        said,
    )


def lost_tuples(
    spark: SparkSession, settings: Settings, letters: DataFrame, windows: Iterable[AuditWindow]
) -> DataFrame | None:
    """Return the messages of the windows that have a tuple among the dead letters.

    `letters` is the result of `read_letters`.
    The columns are `topic`, `partition`, `offset`, `letter`, and `why`: the component and the error.
    None if there is no dead letter of a tuple. A letter names only the trees of its tuple. The
    messages of these trees are found in the ackers' topic, which keeps a day.
    """
    why = sf.concat_ws(
        ": ",
        sf.coalesce("said.error.component", "said.component"),
        sf.coalesce("said.error.type", "said.kind"),
    )
    trees = letters.select("letter", why.alias("why"), sf.explode("said.roots").alias("name"))
    wanted = {(row.letter, row.why, _signed(row.name)) for row in trees.toLocalIterator()}
    if not wanted:
        return None
    try:
        with unless_missing(_NoAckersError()):
            origins = _origins_of(
                read_topic(spark, settings, f"{settings.topology}.__acker"),
                frozenset(root for _, _, root in wanted),
            )
            found = within(origins, windows).collect()
    except _NoAckersError:
        return None
    by_root: dict[int, list[tuple[int, str]]] = {}
    for letter, note, root in wanted:
        by_root.setdefault(root, []).append((letter, note))
    rows = {
        (row.topic, row.partition, row.offset, letter, note)
        for row in found
        for letter, note in by_root[row.root]
    }
    return spark.createDataFrame(
        sorted(rows), "topic STRING, partition INT, offset BIGINT, letter BIGINT, why STRING"
    )


def _signed(root: str) -> int:
    number = int(root, 16)
    return number - (1 << 64) if number >> 63 else number


def _origins_of(records: DataFrame, roots: frozenset[int]) -> DataFrame:
    def found(row: Row) -> list[frames.TreeOrigin]:
        begun = frames.read_valid(frames.origins, row.value)
        return [one for one in begun if one.root in roots]

    values = records.select("value").rdd.flatMap(found)
    return records.sparkSession.createDataFrame(values, _ORIGINS, verifySchema=False)


def letter_offsets(letters: DataFrame, windows: Iterable[AuditWindow]) -> Letters:
    """Return the offsets of the windows that have, or had, a dead letter.

    `letters` is the result of `read_letters`. The key of a discarded letter is still in the topic.
    """
    written = letters.where("NOT discarded").select("said.topic", "said.partition", "said.offset")
    discarded = letters.where("discarded").selectExpr("split(key, '/') AS parts")
    discarded = discarded.where("size(parts) > 3").selectExpr(
        "parts[0] AS topic",
        "try_cast(parts[1] AS INT) AS partition",
        "try_cast(parts[2] AS BIGINT) AS offset",
    )
    found = within(written.unionByName(discarded), windows)
    offsets: Letters = {}
    for row in found.distinct().toLocalIterator():
        offsets.setdefault((row["topic"], row["partition"]), Intervals()).add(
            row["offset"], row["offset"] + 1
        )
    return offsets
