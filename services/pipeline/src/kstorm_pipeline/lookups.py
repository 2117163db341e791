"""Which records of a batch are replays: records of an occurrence of which silver has, or will have, another record.

*What a batch adds is a property of the log, not of the moment.* A record is a replay if silver has **another** record (other
partition and offset) of its occurrence, or if one comes before it in the batch. A batch that runs a second time finds its own
rows in silver; they are not other records, so it finds the same replays.

A look-up is in proportion to the batch, not to silver. A name tells topic, partition and offset of its message. Silver's files
hold one bucket of source partitions each, and Delta knows of each file the least and the greatest offset. So the batch's ranges
of offsets, by topic and partition, meet no file if its messages are new, and those of its time if it has a replay. Of names in
another form nothing is known: a batch with one reads all of them. A record without a name has no replays, and nothing is looked up
for it. Nor is it for a batch whose messages all come after those of silver (`marks`).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.aggregates import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from kstorm_pipeline.refine import Batch
    from kstorm_pipeline.spans import Span

_PLACE = ("kafka_partition", "kafka_offset")
"""Where a record lies in the topic, which no other has."""
_FEW = 100_000
"""As many replays at most are sent to every task: a megabyte or two."""
_MANY = 1_000_000
"""As many names, each a number: some twenty megabytes."""


def find_replays(batch: Batch) -> DataFrame | None:
    """The places of the batch's replays, or None if there are none."""
    if not batch.facts.named:
        return None
    named = batch.good.where(sf.col("occurrence").isNotNull()).select("occurrence", *_PLACE)
    differ = batch.facts.differ or _all_differ(named, batch.facts.named)
    held = _held(batch, named) if batch.marks.reach(batch.spark, batch.facts) else None
    if differ and (held is None or held.isEmpty()):
        return None
    order = Window.partitionBy("occurrence").orderBy(*_PLACE)
    number = sf.lit(1) if differ else sf.row_number().over(order)
    found = named.withColumn("__number", number)
    again = sf.col("__number") > 1
    if held is not None:
        found = found.join(held, "occurrence", "left")
        again |= sf.col("__held") != sf.struct(*_PLACE)
    # What is kept in memory and reads silver would be read anew once the batch has written to silver; this is cut off from it.
    replays = found.where(again).select(*_PLACE).localCheckpoint()
    # Few of them go to where the rows are; else all rows would have to be sent about.
    size = replays.count()
    return None if not size else sf.broadcast(replays) if size <= _FEW else replays


def mark_replays(good: DataFrame, replays: DataFrame | None) -> DataFrame:
    """The good records of a batch with the column `replay`, by what `find_replays` has found."""
    if replays is None:
        return good.withColumn("replay", sf.lit(False))
    marked = good.join(replays.withColumn("__replay", sf.lit(True)), list(_PLACE), "left")
    return marked.withColumn("replay", sf.coalesce("__replay", sf.lit(False))).select(
        *good.columns, "replay"
    )


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of them holds."""
    return reduce(or_, conditions, sf.lit(False))


def _held(batch: Batch, named: DataFrame) -> DataFrame:
    """Names that silver has, each with its place: those of the batch, and few others."""
    silver = batch.tables.read(batch.spark, "silver")
    held = silver.where(_may_hold(batch)).select("occurrence", sf.struct(*_PLACE).alias("__held"))
    held = _of_names(held, named, batch.facts.named)
    if batch.pipeline.silver_function is not None:  # it may have made several rows of one record
        held = held.dropDuplicates(["occurrence"])
    return held


def _of_names(held: DataFrame, named: DataFrame, size: int) -> DataFrame:
    """Those with names of the batch, and few others. Much of silver may be held, where a message comes again after a long time: the
    names go to where these rows are, as numbers, or all of them would have to be sorted to find nothing."""
    names = named.select(sf.xxhash64("occurrence").alias("__hash"))
    hashed = held.withColumn("__hash", sf.xxhash64("occurrence"))
    return hashed.join(sf.broadcast(names) if size <= _MANY else names, "__hash", "left_semi").drop(
        "__hash"
    )


def _all_differ(named: DataFrame, size: int) -> bool:
    """Whether each of these records has a name of its own; equal names have equal hashes."""
    (found,) = facts_of(named, sf.count_distinct(sf.xxhash64("occurrence")))
    return bool(found == size)


def _may_hold(batch: Batch) -> Column:
    """True for all rows of silver whose occurrence may be in the batch: equal names have equal sources."""
    sources = batch.facts.sources
    held = sf.col("source_offset").isNotNull() if sources is None else sf.expr(_within(sources))
    if batch.facts.tells_no_offset:
        held = held | (sf.col("source_offset").isNull() & sf.col("occurrence").isNotNull())
    return held


def _within(spans: Iterable[Span]) -> str:
    """Whether the source of a row is in one of the spans, in SQL: to put it together of columns takes longer than to ask it."""
    topics: dict[str, dict[int, list[str]]] = {}
    for span in spans:
        offsets = f"source_offset BETWEEN {span.first} AND {span.last}"
        topics.setdefault(span.owner[0], {}).setdefault(span.owner[1], []).append(offsets)
    found = []
    for topic, partitions in topics.items():
        of_topic = (
            f"source_partition = {number} AND ({' OR '.join(each)})"
            for number, each in partitions.items()
        )
        found.append(f"source_topic = '{topic}' AND ({' OR '.join(of_topic)})")
    return " OR ".join(found) or "false"
