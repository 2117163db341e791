"""Determines the outcome of each message from the ranges that contain its offset."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.coverage import CoverageAccount, FinishedRange, Intervals
from kstorm_pipeline.audit.ranges import SpoutReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.audit.window import AuditWindow

GAP, NOT_DUE, DEAD, EMPTY, SKIPPED, DONE = "gap", "not due", "dead", "empty", "skipped", "done"
"""`DONE` means acked, committed or claimed, depending on the spout's guarantee."""


@dataclass(slots=True)
class OutcomeJudge:
    """Judges the offsets of one partition of one reading in one window."""

    window: AuditWindow
    account: CoverageAccount
    stored: int | None
    skipped: Intervals = field(default_factory=Intervals)
    chain: list[FinishedRange] = field(default_factory=list)
    """Disjoint ranges inside the window, in order. Each of their messages is counted only once."""

    def __post_init__(self) -> None:
        for skip in self.account.skipped:
            self.skipped.add(skip.start, skip.end)
        behind = self.window.first
        for each in sorted(self.account.ranges, key=lambda one: (one.start, one.end)):
            if behind <= each.start < each.end <= self.window.end:
                self.chain.append(each)
                behind = each.end

    @property
    def due(self) -> int:
        """The first offset that is not yet due."""
        return self.account.due(self.window.first, self.stored)

    def outcome(self, offset: int) -> str:
        if offset not in self.account.covered:
            return GAP if offset < self.due else NOT_DUE
        for known, outcome in (
            (self.account.dead, DEAD),
            (self.account.empty, EMPTY),
            (self.skipped, SKIPPED),
        ):
            if offset in known:
                return outcome
        return DONE

    def place(self, offset: int) -> int:
        """Return the index of the chain's range that contains the offset, or -1."""
        found = bisect_right(self.chain, offset, key=lambda each: each.start) - 1
        return found if found >= 0 and offset < self.chain[found].end else -1


def judge_messages(
    spark: SparkSession, messages: DataFrame, judges: Mapping[SpoutReading, OutcomeJudge]
) -> DataFrame:
    """Return a row for each message and reading.

    The columns are `node`, `topic`, `partition`, `offset`, `timestamp`, `outcome`, and `place`, the
    index of the range in the chain.
    """
    known = spark.sparkContext.broadcast(
        {tuple(reading): judge for reading, judge in judges.items()}
    )
    of = spark.createDataFrame(
        [tuple(reading) for reading in judges], "node STRING, topic STRING, partition INT"
    )

    @sf.udf("outcome STRING, place INT", useArrow=False)
    def judged(node: str, topic: str, partition: int, offset: int) -> tuple[str, int]:
        judge = known.value[node, topic, partition]
        return judge.outcome(offset), judge.place(offset)

    rows = messages.join(sf.broadcast(of), ["topic", "partition"])
    rows = rows.withColumn("judged", judged("node", "topic", "partition", "offset"))
    return rows.select("node", "topic", "partition", "offset", "timestamp", "judged.*")


class OutcomeCount(NamedTuple):
    """The number of messages of one reading with the same range and outcome."""

    reading: SpoutReading
    outcome: str
    place: int
    messages: int
    first: int
    """The earliest timestamp of these messages, in milliseconds since 1970."""


def sum_up(judged: DataFrame) -> list[OutcomeCount]:
    """Count the rows of `judge_messages`."""
    groups = judged.groupBy("node", "topic", "partition", "outcome", "place")
    found = groups.agg(sf.count("*"), sf.min(sf.unix_millis("timestamp"))).collect()
    return [OutcomeCount(SpoutReading(*row[:3]), *row[3:]) for row in found]
