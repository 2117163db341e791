"""Which records of a batch are replays: records of an occurrence of which silver has, or will have, another record.

*What a batch adds is a property of the log, not of the moment.* A record is a replay if silver has **another** record (other
partition and offset) of its occurrence, or if one comes before it in the batch. A batch that runs a second time finds its own
rows in silver; they are not other records, so it finds the same replays.

A look-up is in proportion to the batch, not to silver. A name tells topic, partition and offset of its message. Silver's files
hold one bucket of source partitions each, and Delta knows of each file the least and the greatest offset. So the batch's ranges
of offsets, by topic and partition, meet no file if its messages are new, and those of its time if it has a replay. Of names in
another form nothing is known: a batch with one reads all of them. A record without a name has no replays, and nothing is looked up
for it.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.spans import Span, join_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from kstorm_pipeline.refine import Batch

_CELL = 256
"""Offsets of a source partition are looked at in cells of so many, to see where the batch has none."""
_MOST_CELLS = 20_000
"""More of them are not collected."""
_MOST_SOURCES = 200
"""Names of more topics and partitions than that name something else."""
MOST_GAPS = 64
"""How many gaps in its offsets, or in its hours, a batch tells Delta of."""


def mark_replays(batch: Batch, silver: DataFrame) -> DataFrame:
    """The good records of the batch with the column `replay`."""
    good = batch.good
    if not batch.named:
        return good.withColumn("replay", sf.lit(False))
    marked = _marked(batch, good.where(sf.col("occurrence").isNotNull()), silver)
    if batch.named == batch.size - batch.malformed:
        return marked
    alone = good.where(sf.col("occurrence").isNull()).withColumn("replay", sf.lit(False))
    return marked.unionByName(alone)


def find_sources(records: DataFrame) -> list[Span] | None:
    """The source offsets of records whose names tell them, by topic and partition; None if these are too many to tell."""
    for cell in (sf.expr(f"source_offset DIV {_CELL}"), sf.lit(0)):
        cells = records.groupBy("source_topic", "source_partition", cell.alias("cell"))
        found = cells.agg(sf.min("source_offset"), sf.max("source_offset")).limit(_MOST_CELLS + 1).collect()
        if len(found) <= _MOST_CELLS:
            spans = join_spans((Span((row[0], row[1]), row[3], row[4]) for row in found), MOST_GAPS)
            return spans if len({span.owner for span in spans}) <= _MOST_SOURCES else None
    return None


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of them holds."""
    return reduce(or_, conditions, sf.lit(False))


def _marked(batch: Batch, named: DataFrame, silver: DataFrame) -> DataFrame:
    order = Window.partitionBy("occurrence").orderBy("kafka_partition", "kafka_offset")
    placed = named.withColumn("__number", sf.row_number().over(order))
    held = silver.where(_may_hold(batch)).select(
        "occurrence", sf.struct("kafka_partition", "kafka_offset").alias("__held")
    )
    if batch.pipeline.silver_function is not None:  # it may have made several rows of one record
        held = held.dropDuplicates(["occurrence"])
    joined = placed.join(held, "occurrence", "left")
    another = sf.col("__held") != sf.struct("kafka_partition", "kafka_offset")
    replay = (sf.col("__number") > 1) | sf.coalesce(another, sf.lit(False))
    return joined.withColumn("replay", replay).drop("__number", "__held").select(*named.columns, "replay")


def _may_hold(batch: Batch) -> Column:
    """True for all rows of silver whose occurrence may be in the batch: equal names have equal sources."""
    if batch.sources is None:
        held = sf.col("source_offset").isNotNull()
    else:
        held = any_of(
            (sf.col("source_topic") == span.owner[0])
            & (sf.col("source_partition") == span.owner[1])
            & sf.col("source_offset").between(span.first, span.last)
            for span in batch.sources
        )
    if batch.tells_no_offset:
        held = held | (sf.col("source_offset").isNull() & sf.col("occurrence").isNotNull())
    return held
