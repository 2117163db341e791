"""Finds a batch's replays: records whose occurrence has, or will have, another record in silver.

*A batch's contribution is a property of the log, not of the moment.* A record is a replay if silver
has **another** record (other partition and offset) of its occurrence, or if one precedes it in the
batch. A repeated batch finds its own rows in silver. They are not other records, so it finds the
same replays.

The cost of a look-up depends on the size of the batch, not of silver. A name contains topic,
partition and offset of its message. Each file of silver contains one bucket of source partitions,
and Delta knows the minimum and maximum offset of each file. So the batch's offset ranges match no
file if its messages are new, and only files of the same period if it has a replay.

Names in another form contain no offset, so a batch with such a name reads all rows that have one. A
record without a name has no replays and needs no look-up. A batch whose messages are all newer than
those in silver (`marks`) needs none either.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.ddl import quoted, spare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from kstorm_pipeline.batch import Batch
    from kstorm_pipeline.spans import IntegerSpan

_PLACE = ("kafka_partition", "kafka_offset")
"""A record's position in the topic, which is unique."""
_FEW = 100_000
"""The most replays to send to every task: a megabyte or two."""
_MANY = 1_000_000
"""The most names, as hashes, to send to every task: about twenty megabytes."""


def find_replays(batch: Batch) -> DataFrame | None:
    """Return the positions of the batch's replays, or None if there are none."""
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
    # A cached plan that reads silver is recomputed after the batch has written to silver. The
    # checkpoint cuts that dependency.
    replays = found.where(again).select(*_PLACE).localCheckpoint()
    # Broadcasting a few replays avoids a shuffle of all rows.
    size = replays.count()
    return None if not size else sf.broadcast(replays) if size <= _FEW else replays


def mark_replays(good: DataFrame, replays: DataFrame | None) -> DataFrame:
    """Add the column `replay` to the good records of a batch, from the result of `find_replays`."""
    if replays is None:
        return good.withColumn("replay", sf.lit(False))
    found = spare(good.columns, "replay")
    marked = good.join(replays.withColumn(found, sf.lit(True)), list(_PLACE), "left")
    return marked.withColumn("replay", sf.coalesce(found, sf.lit(False))).select(
        *quoted(good.columns), "replay"
    )


def any_of(conditions: Iterable[Column]) -> Column:
    return reduce(or_, conditions, sf.lit(False))


def _held(batch: Batch, named: DataFrame) -> DataFrame:
    """Return the batch's names that silver has, with their positions, and a few other names."""
    silver = batch.tables.read(batch.spark, "silver")
    held = silver.where(_may_hold(batch)).select("occurrence", sf.struct(*_PLACE).alias("__held"))
    held = _of_names(held, named, batch.facts.named)
    # The silver function may have made several rows from one record.
    if batch.pipeline.silver_function is not None:
        held = held.dropDuplicates(["occurrence"])
    return held


def _of_names(held: DataFrame, named: DataFrame, size: int) -> DataFrame:
    """Return the rows with names of the batch, and a few others.

    `held` can be much of silver if a message arrives again after a long time. So the names are
    broadcast as hashes. Otherwise Spark would have to sort all these rows, mostly without finding a
    replay.
    """
    names = named.select(sf.xxhash64("occurrence").alias("__hash"))
    hashed = held.withColumn("__hash", sf.xxhash64("occurrence"))
    return hashed.join(sf.broadcast(names) if size <= _MANY else names, "__hash", "left_semi").drop(
        "__hash"
    )


def _all_differ(named: DataFrame, size: int) -> bool:
    """Return True if these records have distinct names. Equal names have equal hashes."""
    (found,) = facts_of(named, sf.count_distinct(sf.xxhash64("occurrence")))
    return bool(found == size)


def _may_hold(batch: Batch) -> Column:
    """Return a condition that is true for all rows of silver whose occurrence may be in the batch.

    Equal names have equal sources.
    """
    sources = batch.facts.sources
    held = sf.col("source_offset").isNotNull() if sources is None else sf.expr(_within(sources))
    if batch.facts.tells_no_offset:
        held = held | (sf.col("source_offset").isNull() & sf.col("occurrence").isNotNull())
    return held


def _within(spans: Iterable[IntegerSpan]) -> str:
    """Return an SQL condition that is true if a row's source is in one of the spans.

    Building it from Column objects takes longer than evaluating it.
    """
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
