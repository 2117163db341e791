"""Finds the messages of the source topics in a time window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.kafka import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.settings import Settings


_NO_BOUND = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AuditWindow:
    """The messages of one partition between two times."""

    topic: str
    partition: int
    first: int
    """The first offset that has a message."""
    end: int
    """The last such offset plus one."""
    messages: int
    open: bool = False
    """True if later offsets belong to the window too."""

    @property
    def bound(self) -> int:
        """The end of the offsets that belong to the window."""
        return _NO_BOUND if self.open else self.end


@dataclass(frozen=True, slots=True)
class Times:
    """A time range by the messages' Kafka timestamps. `until` is exclusive. None: no limit."""

    since: datetime | None = None
    until: datetime | None = None


def parse_time(text: str) -> datetime:
    """Parse an ISO date or time, by default in UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def source_messages(
    spark: SparkSession, settings: Settings, topics: Iterable[str], times: Times
) -> DataFrame:
    """Return topic, partition, offset and timestamp of the messages that Kafka still retains."""
    options = {"startingOffsets": "earliest", "startingOffsetsByTimestampStrategy": "latest"}
    if times.since is not None:
        options["startingTimestamp"] = _millis(times.since)
    if times.until is not None:
        options["endingTimestamp"] = _millis(times.until)
    # A pattern, because a subscription by name fails for a deleted topic.
    pattern = "|".join(map(re.escape, topics))
    messages = read_topic(spark, settings, pattern, options, pattern=True)
    return messages.select("topic", "partition", "offset", "timestamp")


def windows(messages: DataFrame, times: Times) -> list[AuditWindow]:
    """Return a window for each partition that has messages."""
    found = (
        messages.groupBy("topic", "partition")
        .agg(sf.min("offset"), sf.max("offset") + 1, sf.count("*"))
        .collect()
    )
    every = (
        AuditWindow(row[0], row[1], row[2], row[3], row[4], times.until is None) for row in found
    )
    return sorted(every, key=lambda each: (each.topic, each.partition))


def within(rows: DataFrame, windows: Iterable[AuditWindow]) -> DataFrame:
    """Return the rows whose topic, partition and offset are in one of the windows."""
    bounds = [(each.topic, each.partition, each.first, each.end) for each in windows]
    frame = rows.sparkSession.createDataFrame(
        bounds, "topic STRING, partition INT, __first BIGINT, __end BIGINT"
    )
    inside = (sf.col("offset") >= sf.col("__first")) & (sf.col("offset") < sf.col("__end"))
    return (
        rows.join(sf.broadcast(frame), ["topic", "partition"])
        .where(inside)
        .drop("__first", "__end")
    )


def _millis(time: datetime) -> str:
    return str(round(time.timestamp() * 1000))
