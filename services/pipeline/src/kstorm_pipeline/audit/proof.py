"""Level 4: Spark recomputes tree completion from the ackers' input.

A tree is complete once the XOR of all its values, from its beginning on, is 0. This is one line of
SQL over the ackers' topic, which shares no code with the ackers' ledger. Every tree that kstorm
reports as complete must be among these trees. The proof reaches as far back as the topics, which
retain records for hours.
"""

from __future__ import annotations

import re
from datetime import timedelta
from struct import error
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.audit import frames
from kstorm_pipeline.audit.findings import Finding
from kstorm_pipeline.audit.kafka import persisted, read_topic, unless_missing
from kstorm_pipeline.audit.ranges import SpoutReading
from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from kstorm_pipeline.settings import Settings

_UPDATES = """
    partition INT, offset BIGINT, timestamp TIMESTAMP,
    root ARRAY<BIGINT>, val ARRAY<BIGINT>, init ARRAY<BOOLEAN>, over ARRAY<BOOLEAN>
"""
"""One row per record. Passing each update to Java separately took a third of the CPU time."""
_COMPLETIONS = "topic STRING, partition INT, offset BIGINT, root ARRAY<BIGINT>"
_UNSIGNED = (1 << 64) - 1
_WITH_ABORTED = {"kafka.isolation.level": "read_uncommitted"}
_SHOWN = 1000
"""The most trees that are named. Their count is always exact."""
_LOOKED_AT = 100
_EARLY = timedelta(minutes=10)
"""An ack may precede the beginning of its tree, but by no more than this."""


class NoAckersError(Exception): ...


class AckerProof(NamedTuple):
    said: int
    """Number of trees that kstorm reports as complete and whose beginning is still retained."""
    closed: int
    """Number of trees whose XOR is 0."""
    findings: list[Finding]


def prove(spark: SparkSession, settings: Settings) -> AckerProof | None:
    """Check all trees that the ackers' topic still retains. Return None if there are no ackers."""
    # Read the completions first: every tree they mention is then already in the acker log.
    pattern = rf"{re.escape(settings.topology)}\.[^.]+\.__completions"
    with persisted(completions_of(read_topic(spark, settings, pattern, pattern=True))) as said:
        said.count()
        acker = f"{settings.topology}.__acker"
        try:
            with unless_missing(NoAckersError()):
                records = read_topic(spark, settings, acker)
                _check_that_frames_are_read(records, acker)
                updates = updates_of(records)
        except NoAckersError:
            return None
        with persisted(updates) as told:
            heads = heads_of(read_topic(spark, settings, acker, _WITH_ABORTED))
            return compare(said, told, heads)


def _check_that_frames_are_read(rows: DataFrame, topic: str) -> None:
    """Raise PipelineError if none of the first records is a valid frame, because then every proof
    would pass."""
    first = rows.select("value").limit(_LOOKED_AT).collect()
    if first and not any(_reads(row) for row in first):
        raise PipelineError(
            f"none of the first {len(first)} records of topic {topic!r} is a frame that this "
            "release audits: run the pipeline in the release of the topology's services"
        )


def _reads(row: Row) -> bool:
    try:
        list(frames.updates(bytes(row.value or b"")))
    except (ValueError, error):
        return False
    return True


def compare(said: DataFrame, told: DataFrame, heads: DataFrame) -> AckerProof:
    """Compare the completions with the trees of the acker log.

    The arguments are results of `completions_of`, `updates_of` and `heads_of`.
    """
    with (
        persisted(heads),
        persisted(_whole(close(told), heads)) as trees,
        persisted(said.join(trees.select("root", "closed"), "root")) as known,
    ):
        size, unproven = facts_of(known, sf.count("*"), sf.count_if(~sf.col("closed")))
        findings: list[Finding] = []
        if unproven:
            findings += _findings(
                known.where(~sf.col("closed")), "reported as complete, but it is not"
            )
        # If Kafka has deleted nothing, every reported tree must have a beginning.
        if said.count() > size and not facts_of(heads, sf.max("head"))[0]:
            begun = told.where("init")
            findings += _findings(
                said.join(begun, "root", "left_anti"), "reported as complete, but it never began"
            )
        return AckerProof(size, trees.where("closed").count(), findings)


def _findings(rows: DataFrame, note: str) -> Iterator[Finding]:
    for root, topic, partition, offset, *_ in (
        rows.orderBy("topic", "partition", "offset").limit(_SHOWN).collect()
    ):
        what = f"the tree {root & _UNSIGNED:016x} is {note}"
        yield Finding(
            4,
            "a tree that is not proven",
            True,
            SpoutReading("", topic, partition),
            offset,
            offset + 1,
            what,
        )


def _whole(trees: DataFrame, heads: DataFrame) -> DataFrame:
    """Leave out trees that Kafka may already have deleted records of."""
    there = (sf.col("head") == 0) | (sf.col("timestamp") >= sf.col("since") + sf.lit(_EARLY))
    return trees.join(sf.broadcast(heads), "partition").where(there).select("root", "closed")


def heads_of(rows: DataFrame) -> DataFrame:
    """Return the first record of each partition: its offset as `head`, and its time as `since`."""
    return rows.groupBy("partition").agg(
        sf.min("offset").alias("head"), sf.min("timestamp").alias("since")
    )


def updates_of(rows: DataFrame) -> DataFrame:
    """Return the updates in the records of the ackers' topic, numbered in their order."""

    def told(row: Row) -> Iterator[tuple[object, ...]]:
        if updates := frames.read_valid(frames.updates, row.value):
            yield row.partition, row.offset, row.timestamp, *map(list, zip(*updates, strict=True))

    values = rows.select("partition", "offset", "timestamp", "value").rdd.flatMap(told)
    found = rows.sparkSession.createDataFrame(values, _UPDATES, verifySchema=False)
    place = ("partition", "offset", "timestamp")
    each = sf.posexplode(sf.arrays_zip(*frames.AckUpdate._fields)).alias("number", "update")
    return found.select(*place, each).select(*place, "number", "update.*")


def completions_of(rows: DataFrame) -> DataFrame:
    """Return the roots that are reported as complete, each with the first record that does so."""

    def said(row: Row) -> Iterator[tuple[object, ...]]:
        if roots := frames.read_valid(frames.completed, row.value):
            yield row.topic, row.partition, row.offset, roots

    values = rows.select("topic", "partition", "offset", "value").rdd.flatMap(said)
    found = rows.sparkSession.createDataFrame(values, _COMPLETIONS, verifySchema=False)
    first = sf.min(sf.struct("topic", "partition", "offset")).alias("first")
    return (
        found.withColumn("root", sf.explode("root"))
        .groupBy("root")
        .agg(first)
        .select("root", "first.*")
    )


def close(told: DataFrame) -> DataFrame:
    """Return the trees whose beginning is known.

    The columns are `root`, `closed` (the XOR was 0 before a failure), and the `partition` and
    `timestamp` of the beginning.
    """
    of_root = Window.partitionBy("root").orderBy("offset", "number")
    so_far = of_root.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begun = sf.sum(sf.col("init").cast("int")).over(so_far)
    # The beginning of a tree may occur twice. It counts once.
    rows = told.withColumn("begun", begun).where(~sf.col("init") | (sf.col("begun") == 1))
    total = sf.expr("bit_xor(val)").over(so_far)
    rows = rows.withColumn("total", total)
    failed = sf.max("over").over(so_far)
    rows = rows.withColumn("done", (sf.col("begun") > 0) & (sf.col("total") == 0) & ~failed)
    trees = rows.groupBy("root").agg(
        sf.max("done").alias("closed"),
        sf.min("partition").alias("partition"),
        sf.min(sf.when(sf.col("init"), sf.col("timestamp"))).alias("timestamp"),
    )
    return trees.where("timestamp IS NOT NULL")
