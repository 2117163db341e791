"""Computes statistics of a batch in one pass over its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.spans import CELL, MOST_CELLS, MOST_SOURCES, IntegerSpan, join_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

_PLACE = ("source_topic", "source_partition")
_GROUPS = ((*_PLACE, f"source_offset DIV {CELL}"), _PLACE, ())
"""Groupings of the records, from fine to coarse."""


@dataclass(frozen=True, slots=True)
class BatchStats:
    """Statistics of a batch's records from `read_rows`."""

    size: int
    """All rows."""
    malformed: int
    """Unreadable rows."""
    named: int
    """Good rows that are identified by a name, not by their own coordinates."""
    sources: list[IntegerSpan] | None
    """The source offsets in good rows' names, by topic and partition. None if too many."""
    tells_no_offset: bool
    """True if some good row has a name without a source offset."""
    reason: str = ""
    """The reason for one of the unreadable rows, or empty if there are none."""
    differ: bool = False
    """True if all names of good rows are known to be distinct. False means unknown."""

    @property
    def good(self) -> int:
        """Readable rows."""
        return self.size - self.malformed


def collect_stats(records: DataFrame) -> BatchStats:
    """Compute the statistics in one pass, or in more if the offsets are in too many cells."""
    named = sf.col("reason").isNull() & sf.col("occurrence").isNotNull()
    offset = sf.when(named, sf.col("source_offset"))
    facts = (
        sf.count("*").alias("size"),
        sf.count("reason").alias("malformed"),
        sf.min("reason").alias("reason"),
        sf.count_if(named).alias("named"),
        sf.count(offset).alias("told"),
        sf.min(offset).alias("first"),
        sf.max(offset).alias("last"),
    )
    groups = iter(_GROUPS)
    found: list[Row] = []
    by: tuple[str, ...] = ()
    while not found or len(found) > MOST_CELLS:
        by = next(groups)
        found = records.groupBy(*map(sf.expr, by)).agg(*facts).limit(MOST_CELLS + 1).collect()
    return BatchStats(
        size=sum(row["size"] for row in found),
        malformed=sum(row["malformed"] for row in found),
        named=sum(row["named"] for row in found),
        sources=_spans(row for row in found if row["told"]) if by else None,
        tells_no_offset=any(row["named"] > row["told"] for row in found),
        reason=min((row["reason"] for row in found if row["reason"] is not None), default=""),
    )


def _spans(rows: Iterable[Row]) -> list[IntegerSpan] | None:
    """Return the offsets of these groups, or None if they have too many owners."""
    spans = join_spans(IntegerSpan((row[0], row[1]), row["first"], row["last"]) for row in rows)
    return spans if len({span.owner for span in spans}) <= MOST_SOURCES else None
