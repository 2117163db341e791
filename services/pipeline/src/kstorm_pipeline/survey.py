"""What a batch is as a whole, found by one look at its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.spans import CELL, MOST_CELLS, MOST_SOURCES, Span, join_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

_PLACE = ("source_topic", "source_partition")
_GROUPS = ((*_PLACE, f"source_offset DIV {CELL}"), _PLACE, ())
"""By what the records are looked at, from fine to coarse."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Of the records of a batch, as `read_rows` made them."""

    size: int
    """All rows."""
    malformed: int
    """Those of them that cannot be read."""
    named: int
    """Good ones that are told apart by a name, and not by their own coordinates."""
    sources: list[Span] | None
    """The source offsets in the names of the good records, by topic and partition; None if these are too many to tell."""
    tells_no_offset: bool
    """Whether some good record has a name from which no source offset can be read."""
    reason: str = ""
    """Why one of those that cannot be read cannot; empty if all can."""
    differ: bool = False
    """Whether it is known that no two good records have one name; False: it is to be looked at."""

    @property
    def good(self) -> int:
        """Those of them that can be read."""
        return self.size - self.malformed


def survey(records: DataFrame) -> Survey:
    """Look at all of them, once unless their names tell of very many places."""
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
    return Survey(
        size=sum(row["size"] for row in found),
        malformed=sum(row["malformed"] for row in found),
        named=sum(row["named"] for row in found),
        sources=_spans(row for row in found if row["told"]) if by else None,
        tells_no_offset=any(row["named"] > row["told"] for row in found),
        reason=min((row["reason"] for row in found if row["reason"] is not None), default=""),
    )


def _spans(rows: Iterable[Row]) -> list[Span] | None:
    """The offsets of these groups; None if they are in too many places."""
    spans = join_spans(Span((row[0], row[1]), row["first"], row["last"]) for row in rows)
    return spans if len({span.owner for span in spans}) <= MOST_SOURCES else None
