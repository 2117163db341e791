"""Reads the spouts' reports about their offsets: the records of `<topology>.__finished`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.coverage import CoverageAccount, FinishedRange, SkippedRange
from kstorm_pipeline.audit.kafka import no_such_topic, read_topic, unless_missing
from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row, SparkSession

    from kstorm_pipeline.audit.window import AuditWindow
    from kstorm_pipeline.settings import Settings

_RANGE = """
    v INT, reading STRING, topic STRING, partition INT, `from` BIGINT, `to` BIGINT, n MAP<STRING, BIGINT>,
    dead ARRAY<ARRAY<BIGINT>>, empty ARRAY<ARRAY<BIGINT>>,
    skipped ARRAY<STRUCT<`from`: BIGINT, `to`: BIGINT, why: STRING, who: STRING>>
"""


class SpoutReading(NamedTuple):
    """One spout's consumption of one partition. Two spouts may read a partition independently."""

    node: str
    """The ZooKeeper node that is the parent of the partitions' nodes."""
    topic: str
    partition: int


def finished_topic(topology: str) -> str:
    """Return the name of the topic to which spouts report the outcomes of their offsets."""
    return f"{topology}.__finished"


def readings(spark: SparkSession, settings: Settings) -> list[SpoutReading]:
    """Return all readings.

    Raises PipelineError if the topic does not exist, or a record has the format of another release.
    """
    topic = finished_topic(settings.topology)
    with unless_missing(no_such_topic(settings.topology, topic)):
        found = (
            _ranges(spark, settings)
            .groupBy("reading", "topic", "partition", "v")
            .agg(sf.min("seq"))
            .collect()
        )
    for *_, version, seq in found:
        if version != 1:
            what = (
                "not a finished range"
                if version is None
                else f"a finished range of version {version}"
            )
            raise PipelineError(
                f"the record at offset {seq} of {topic!r} is {what}; this release audits version 1"
            )
    return sorted(SpoutReading(*row[:3]) for row in found)


def accounts(
    spark: SparkSession, settings: Settings, windows: Iterable[AuditWindow]
) -> dict[SpoutReading, CoverageAccount]:
    """Combine the ranges reported so far for the windows' offsets."""
    ranges = _ranges(spark, settings)
    bounds = [(each.topic, each.partition, each.first, each.bound) for each in windows]
    if not bounds:
        return {}
    frame = spark.createDataFrame(
        bounds, "topic STRING, partition INT, __first BIGINT, __end BIGINT"
    )
    meets = (sf.col("to") > sf.col("__first")) & (sf.col("from") < sf.col("__end"))
    back = sf.col("to") < sf.col("from")
    found = (
        ranges.join(sf.broadcast(frame), ["topic", "partition"]).where(meets | back).orderBy("seq")
    )
    of: defaultdict[SpoutReading, list[FinishedRange]] = defaultdict(list)
    for row in found.toLocalIterator():
        of[SpoutReading(row["reading"], row["topic"], row["partition"])].append(_range(row))
    return {reading: CoverageAccount.of(said) for reading, said in of.items()}


def _ranges(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return all records as columns, with their order as `seq`."""
    rows = read_topic(spark, settings, finished_topic(settings.topology)).where("value IS NOT NULL")
    said = sf.from_json(sf.col("value").cast("string"), _RANGE).alias("said")
    return rows.select(said, sf.col("offset").alias("seq")).select("said.*", "seq")


def _range(row: Row) -> FinishedRange:
    return FinishedRange(
        row["from"],
        row["to"],
        dict(row["n"] or {}),
        tuple((run[0], run[1]) for run in row["dead"] or ()),
        tuple((run[0], run[1]) for run in row["empty"] or ()),
        tuple(
            SkippedRange(each["from"], each["to"], each["why"], each["who"] or "")
            for each in row["skipped"] or ()
        ),
    )
