"""Level 3: compares the sink's records in silver with the messages that they were made from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.coverage import Intervals
from kstorm_pipeline.audit.findings import Finding, Tally
from kstorm_pipeline.audit.kafka import persisted
from kstorm_pipeline.audit.message_outcomes import DONE, EMPTY, GAP
from kstorm_pipeline.audit.ranges import SpoutReading
from kstorm_pipeline.audit.window import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kstorm_pipeline.audit.window import AuditWindow

_SHOWN = 1000
"""The most offsets of a kind that are listed. Their count is always exact."""
_PLACE = ("topic", "partition", "offset")
_STRANGE = f"outcome IN ('{GAP}', '{EMPTY}') AND outputs > 0"


def made_of(silver: DataFrame, windows: Iterable[AuditWindow]) -> DataFrame:
    """Count the records made from each message of the windows, if the records name it."""
    rows = silver.select(*(sf.col(f"source_{name}").alias(name) for name in _PLACE))
    return within(rows, windows).groupBy(*_PLACE).agg(sf.count("*").alias("outputs"))


def check_outputs(
    judged: DataFrame, made: DataFrame, tallies: list[Tally], expect: int
) -> list[Finding]:
    """Add the counts of each reading's records to its tally, and return the findings.

    If `expect` is 0, a message without a record is not a fault but is reported. If in addition no
    record names its message, as in an exactly-once topology, there is nothing to check.
    """
    rows = judged.join(made, list(_PLACE), "left").withColumn(
        "outputs", sf.coalesce("outputs", sf.lit(0))
    )
    with persisted(rows):
        asked = (
            sf.sum("outputs"),
            sf.count_if(sf.expr(_few(1))),
            sf.count_if(sf.expr(_STRANGE)),
            sf.count_if(sf.expr(_few(expect))),
        )
        counts = rows.groupBy("node", "topic", "partition").agg(*asked).collect()
        if not expect and not any(row[3] for row in counts):
            return []
        of = {SpoutReading(*row[:3]): (row[3], row[4]) for row in counts}
        for tally in tallies:
            tally.outputs, tally.without_output = of[tally.reading]
        strange = rows.where(_STRANGE) if any(row[5] for row in counts) else None
        few = rows.where(_few(expect)) if any(row[6] for row in counts) else None
        return [*_findings(strange, few, expect)]


def _few(expect: int) -> str:
    return f"outcome = '{DONE}' AND outputs < {max(1, expect)}"


def _findings(strange: DataFrame | None, few: DataFrame | None, expect: int) -> Iterator[Finding]:
    for reading, first, end in _runs(strange):
        yield Finding(3, "a record of a message that was not processed", True, reading, first, end)
    what = "acked without a record" if expect <= 1 else f"acked with fewer than {expect} records"
    for reading, first, end in _runs(few):
        yield Finding(3, what, expect > 0, reading, first, end)


def _runs(rows: DataFrame | None) -> Iterator[tuple[SpoutReading, int, int]]:
    """Return the offsets of the first rows by reading, with consecutive offsets merged."""
    if rows is None:
        return
    found: defaultdict[SpoutReading, Intervals] = defaultdict(Intervals)
    columns = rows.select("node", "topic", "partition", "offset")
    for row in columns.orderBy("node", "topic", "partition", "offset").limit(_SHOWN).collect():
        found[SpoutReading(row[0], row[1], row[2])].add(row[3], row[3] + 1)
    for reading, offsets in found.items():
        for first, end in offsets:
            yield reading, first, end
