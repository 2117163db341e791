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

from kstorm_pipeline.aggregates import facts_of
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
_PLACE = ("kafka_partition", "kafka_offset")
"""Where a record lies in the topic, which no other has."""
_FEW = 100_000
"""As many replays at most are sent to every task: a megabyte or two."""
MOST_GAPS = 64
"""How many gaps in its offsets, or in its hours, a batch tells Delta of."""


def mark_replays(batch: Batch, silver: DataFrame) -> DataFrame:
    """The good records of the batch with the column `replay`."""
    good = batch.good
    replays = _find_replays(batch, silver) if batch.named else None
    if replays is None:
        return good.withColumn("replay", sf.lit(False))
    marked = good.join(replays.withColumn("__replay", sf.lit(True)), list(_PLACE), "left")
    return marked.withColumn("replay", sf.coalesce("__replay", sf.lit(False))).select(*good.columns, "replay")


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


def _find_replays(batch: Batch, silver: DataFrame) -> DataFrame | None:
    """The places of the batch's replays, or None if there are none."""
    named = batch.good.where(sf.col("occurrence").isNotNull()).select("occurrence", *_PLACE)
    held = silver.where(_may_hold(batch)).select("occurrence", sf.struct(*_PLACE).alias("__held"))
    if _all_differ(named, batch.named) and held.isEmpty():
        return None
    if batch.pipeline.silver_function is not None:  # it may have made several rows of one record
        held = held.dropDuplicates(["occurrence"])
    order = Window.partitionBy("occurrence").orderBy(*_PLACE)
    joined = named.withColumn("__number", sf.row_number().over(order)).join(held, "occurrence", "left")
    another = sf.col("__held") != sf.struct(*_PLACE)
    # What is kept in memory and reads silver would be read anew once the batch has written to silver; this is cut off from it.
    replays = joined.where((sf.col("__number") > 1) | another).select(*_PLACE).localCheckpoint()
    # Few of them go to where the rows are; else all rows would have to be sent about.
    size = replays.count()
    return None if not size else sf.broadcast(replays) if size <= _FEW else replays


def _all_differ(named: DataFrame, size: int) -> bool:
    """Whether each of these records has a name of its own; equal names have equal hashes."""
    (found,) = facts_of(named, sf.count_distinct(sf.xxhash64("occurrence")))
    return bool(found == size)


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
