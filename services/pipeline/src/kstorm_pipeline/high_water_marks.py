"""High-water marks of silver: silver has no row of a message after the mark of the message's source
partition.

A batch whose messages are all after the marks contains no occurrence that silver has, so no look-up
is needed. That is true for nearly every batch of a continuous run. A run's marks start with Delta's
statistics of silver's files, and are advanced by the run's own writes. Only one run writes to the
tables.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.lineage import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.batch_stats import BatchStats
    from kstorm_pipeline.spans import IntegerSpan
    from kstorm_pipeline.tables import Tables


class HighWaterMarks:
    """The marks of one run."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._found: dict[int, float] | None = None
        """The last offsets in silver's statistics by bucket of source partitions. None: unknown."""
        self._written: dict[tuple[str, int], int] = {}
        """The last offsets written since, by source topic and partition."""

    def reach(self, spark: SparkSession, facts: BatchStats) -> bool:
        """Return False if silver certainly has no row of an occurrence of this batch."""
        if facts.sources is None or facts.tells_no_offset:
            return True
        if self._found is None:
            self._found = _last_of_buckets(spark, self._tables.path("silver"))
        return any(span.first <= self._mark(span, self._found) for span in facts.sources)

    def note(self, sources: Iterable[IntegerSpan] | None) -> None:
        """Record that rows of these messages will be written to silver. None means too many."""
        if sources is None:
            self._found = None
            self._written.clear()
            return
        for span in sources:
            self._written[span.owner] = max(span.last, self._written.get(span.owner, -1))

    def _mark(self, span: IntegerSpan, found: dict[int, float]) -> float:
        return max(found.get(bucket_of(*span.owner), -1), self._written.get(span.owner, -1))


def _last_of_buckets(spark: SparkSession, path: str) -> dict[int, float]:
    """Return the highest source offset of each bucket in silver, from Delta's statistics.

    It is infinite for a bucket with a file that has no statistics.
    """
    log = DeltaLog(spark, path)
    noted = log.noted_files()
    return _last_of_many(log.files_as_rows()) if noted is None else _last_of_few(noted)


def _last_of_few(files: list[dict[str, Any]]) -> dict[int, float]:
    found: dict[int, float] = {}
    for each in files:
        if (bucket := each["partitionValues"]["source_bucket"]) is not None:
            last = (
                json.loads(each.get("stats") or "{}")
                .get("maxValues", {})
                .get("source_offset", math.inf)
            )
            found[int(bucket)] = max(last, found.get(int(bucket), -1))
    return found


def _last_of_many(files: DataFrame) -> dict[int, float]:
    last = sf.get_json_object("stats", "$.maxValues.source_offset").cast("bigint")
    bucket = sf.col("partitionValues")["source_bucket"].cast("int")
    found = files.groupBy(bucket.alias("bucket")).agg(
        sf.max(last).alias("last"), sf.count_if(last.isNull()).alias("untold")
    )
    return {
        row["bucket"]: math.inf if row["untold"] else row["last"]
        for row in found.collect()
        if row["bucket"] is not None
    }
