"""The writes of one batch to silver, quarantine and gold, and why a crash leaves no duplicates.

Spark calls `refine` with a batch of bronze rows and a number. It records the number as done only
after `refine` has returned. After a crash before that, it passes the same rows again with the same
number. A batch makes these commits, each to one table:

    1. append to quarantine              3. merge into each gold table, in the order of declaration
    2. append to silver

Then it calls the pipeline's own batch functions, which must make sure themselves that a second call
changes nothing.

Two rules make a second run harmless, after a crash between any two commits:

- **A commit carries its batch.** Delta writes (query id, batch number) to the table's log in the
  same atomic commit as the data, and refuses a commit that the table already has. So each step of a
  batch takes effect fully, and once.
- **A batch's contribution is a property of the log, not of the moment.** For each occurrence, the
  row that belongs in silver is the record that silver has or will have (`lookups`). So the second
  run finds its own rows in silver and still computes the same for gold. The result of a pipeline's
  functions depends only on their rows, so the second run computes the same result.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.batch import Batch
from kstorm_pipeline.batch_stats import collect_stats
from kstorm_pipeline.gold import merge_gold
from kstorm_pipeline.high_water_marks import HighWaterMarks
from kstorm_pipeline.pipeline import BatchId
from kstorm_pipeline.replay_lookup import find_replays, mark_replays
from kstorm_pipeline.row_reading import malformed_rows, read_rows, refine_rows
from kstorm_pipeline.tables import query_id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from kstorm_pipeline.arrow.batches import ArrowReader, WrittenBatch
    from kstorm_pipeline.pipeline import Pipeline
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Refined:
    """Rows and durations of a batch's writes, as counted by its first run."""

    rows: dict[str, int] = field(default_factory=dict)
    """Rows added by table. For gold tables, rows changed or added."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of the step by table."""
    replays: int = 0
    """Replays: rows whose occurrence silver has from another record."""
    size: int = 0
    """Rows of the batch."""
    reason: str = ""
    """An example of the reasons in quarantine."""

    def step(self, table: str, write: Callable[[], int]) -> None:
        """Write to a table. `write` returns the number of rows."""
        begun = time.monotonic()
        self.rows[table] = write()
        self.seconds[table] = time.monotonic() - begun


def refine(
    tables: Tables,
    pipeline: Pipeline,
    rows: DataFrame,
    batch_id: int,
    marks: HighWaterMarks | None = None,
    arrow: ArrowReader | None = None,
) -> Refined:
    """Write what a batch of bronze rows adds to the other tables. Can be repeated at any time.

    `marks` are the run's high-water marks, by default new ones. `arrow` reads the batches that
    Python can read. By default Spark reads all.
    """
    done = Refined()
    with _kept(pipeline, rows, batch_id, arrow) as (records, written):
        facts = (written.survey() if written is not None else None) or collect_stats(records)
        batch = Batch(
            tables,
            pipeline,
            batch_id,
            rows,
            records,
            facts,
            marks or HighWaterMarks(tables),
            written,
        )
        done.size, done.reason = facts.size, facts.reason
        if facts.malformed:
            done.step("quarantine", partial(write_quarantine, batch))
        if facts.good:
            _refine_good(batch, done)
    figures = (batch_id, facts.size, done.rows.get("silver", 0), done.replays, facts.malformed)
    logger.info(
        "refine: batch %d: %d rows in, %d to silver, %d replays dropped, %d quarantined", *figures
    )
    return done


@contextmanager
def _kept(
    pipeline: Pipeline, rows: DataFrame, number: int, arrow: ArrowReader | None
) -> Iterator[tuple[DataFrame, WrittenBatch | None]]:
    """Read the records of a batch once, and keep them as files or in memory."""
    written = arrow.read(rows, number) if arrow is not None else None
    if written is not None:
        with written:
            yield written.records, written
        return
    records = read_rows(pipeline, rows).drop("record").persist()
    try:
        yield records, None
    finally:
        records.unpersist()


def write_quarantine(batch: Batch) -> int:
    """Append the unreadable records, and return their number."""
    batch.tables.append("quarantine", malformed_rows(batch.rows, batch.records), batch.number)
    return batch.facts.malformed


def write_silver(batch: Batch, fresh: DataFrame, count: int) -> int:
    """Append the `count` rows for silver. If the batch is repeated, Delta refuses the commit."""
    if (
        batch.written is not None
        and count == batch.facts.size
        and batch.pipeline.silver_function is None
    ):
        batch.written.commit(batch.spark, batch.number)
        return count
    rows = fresh.withColumn("batch", sf.lit(batch.number).cast("bigint"))
    # Each task writes a file per bucket that it has, so rows of a bucket go to the same task.
    if batch.facts.named:
        rows = rows.repartition(sf.coalesce("source_bucket", -1 - sf.col("kafka_partition")))
    batch.tables.append("silver", rows, batch.number)
    return count


def _refine_good(batch: Batch, done: Refined) -> None:
    """Write the readable records."""
    replays = find_replays(batch)
    marked = mark_replays(batch.good, replays)
    # All records go to silver unchanged, and they are persisted already.
    if replays is None and batch.pipeline.silver_function is None:
        _write_good(batch, marked, batch.facts.good, done)
        return
    marked = refine_rows(batch.pipeline, marked).persist()
    try:
        fresh, done.replays = facts_of(
            marked, sf.count_if(~sf.col("replay")), sf.count_if("replay")
        )
        _write_good(batch, marked, fresh, done)
    finally:
        marked.unpersist()


def _write_good(batch: Batch, marked: DataFrame, fresh: int, done: Refined) -> None:
    """Write the rows for silver, `fresh` of which are not replays, and update the gold tables.

    Then call the batch functions.
    """
    new = marked.where(~sf.col("replay")).drop("replay")
    if fresh:
        batch.marks.note(batch.facts.sources)
        done.step("silver", partial(write_silver, batch, new, fresh))
    for gold in batch.pipeline.golds.values():
        if fresh or (gold.replays and done.replays):
            done.step(gold.name, partial(merge_gold, batch, gold, marked if gold.replays else new))
    for function in batch.pipeline.batch_functions if fresh else ():
        function(new, BatchId(query_id_of(batch.spark), batch.number))
