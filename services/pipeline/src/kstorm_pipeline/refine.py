"""From bronze to silver, quarantine and gold: what one batch writes, and why a crash leaves nothing twice.

Spark hands `refine` a batch of bronze rows and a number. It notes the number as done only after `refine` has returned:
a crash anywhere before means the same rows again under the same number. A batch makes four commits, each to one table:

    1. append to quarantine              3. merge into counts_per_minute
    2. append to silver                  4. merge into word_counts

Two rules make a second run harmless, after a crash between any two of them:

* **a commit carries its batch.** Delta writes (query id, batch number) into the table's log in the same atomic commit
  as the data, and refuses a commit that it already has. So of each step a batch does all, once.
* **what a batch adds is a property of the log, not of the moment.** Of an `id`, the row that belongs to silver is the
  record that silver holds, or will hold: a record of the batch is *accepted* if silver has no row of its id, **or has
  this very record** (same partition and offset). The second half is for the second run: it finds its own rows in silver
  and still computes the same sums for gold.

All work is in proportion to the batch, not to what the tables hold. The look-up of ids reads the files of silver
whose range of source offsets meets the batch's: new messages meet none, a replay the files of its time.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.records import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_TYPED = ("reason", "word", "count", "id", "emitted_at", "event_time", "partition", "offset", "source_offset")


def refine(tables: Tables, rows: DataFrame, batch_id: int) -> None:
    """Write what the batch `batch_id` of bronze rows adds to the other tables; may be run again at any time."""
    records = read_records(rows).select(*_TYPED).persist()
    try:
        batch = _survey(tables, rows, records, batch_id)
        if batch.malformed:
            write_quarantine(batch)
        fresh = _refine_good(batch) if batch.size > batch.malformed else 0
    finally:
        records.unpersist()
    replays = batch.size - batch.malformed - fresh
    figures = (batch_id, batch.size, fresh, replays, batch.malformed)
    logger.info("refine: batch %d: %d rows in, %d to silver, %d replays dropped, %d quarantined", *figures)


def _refine_good(batch: Batch) -> int:
    """Write the records that fit the schema; return how many of them silver got."""
    accepted = _accepted(batch).persist()
    try:
        fresh = accepted.count()
        if fresh:
            write_silver(batch, accepted)
            merge_counts_per_minute(batch, accepted)
        merge_word_counts(batch, accepted)
    finally:
        accepted.unpersist()
    return fresh


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: its records with what is known of them as a whole."""

    tables: Tables
    number: int
    """The batch's number in the query's checkpoint: the same rows always come under the same number."""
    rows: DataFrame
    """The bronze rows."""
    records: DataFrame
    """What `read_records` made of them, without the raw columns; persisted."""
    size: int
    """All rows."""
    malformed: int
    """Those of them that do not fit the schema."""
    source_offsets: tuple[int, int] | None
    """The least and the greatest source offset in the ids of the good records; None if no id tells one."""
    tells_no_offset: bool
    """Whether some good record has an id from which no source offset can be read."""
    minutes: tuple[datetime, datetime] | None
    """The first and the last minute in which a good record lies; None if there are no good records."""

    @property
    def spark(self) -> SparkSession:
        """The session of this query; what is set on it concerns no other query."""
        return self.records.sparkSession

    @property
    def good(self) -> DataFrame:
        """The records that fit the schema, replays among them."""
        return self.records.where(sf.col("reason").isNull())

    @property
    def query_id(self) -> str:
        """Names the checkpoint, not the run: a restarted query keeps its id, one with a new checkpoint has another."""
        query_id = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None, "refine runs inside a streaming query"
        return query_id


def write_quarantine(batch: Batch) -> None:
    """Append the records that do not fit the schema."""
    _append(batch, "quarantine", read_records(batch.rows).where(sf.col("reason").isNotNull()))


def write_silver(batch: Batch, accepted: DataFrame) -> None:
    """Append the accepted records; on a second run they are there, and Delta refuses the commit."""
    _append(batch, "silver", accepted)


def merge_counts_per_minute(batch: Batch, accepted: DataFrame) -> None:
    """Add the accepted records to the minutes of their Kafka timestamps."""
    assert batch.minutes is not None, "there are good records"
    start = sf.date_trunc("minute", "event_time").alias("window_start")
    added = accepted.groupBy(start, "word").agg(sf.count("*").alias("occurrences"))
    added = added.withColumn("window_end", sf.expr("window_start + INTERVAL 1 MINUTE"))
    first, last = batch.minutes
    # The range says nothing new; as a literal it tells Delta which files cannot match.
    same = sf.expr("t.word = s.word AND t.window_start = s.window_start")
    same = same & sf.col("t.window_start").between(sf.lit(first), sf.lit(last))
    merge = (
        DeltaTable.forPath(batch.spark, batch.tables.path("counts_per_minute")).alias("t").merge(added.alias("s"), same)
    )
    merge = merge.whenMatchedUpdate(set={"occurrences": "t.occurrences + s.occurrences"}).whenNotMatchedInsertAll()
    with _once(batch):
        merge.execute()


def merge_word_counts(batch: Batch, accepted: DataFrame) -> None:
    """Move each word of the batch to its latest count, replays included, and add its accepted records.

    Within a partition the offset tells which count is later. A word has all its records in one partition, until
    somebody adds partitions to the topic: between partitions the Kafka timestamp tells.
    """
    latest = sf.max_by(sf.struct("count", "partition", "offset", "event_time"), "offset")
    latest_of_word = sf.max_by("latest", "latest.event_time")
    counts = batch.good.groupBy("word", "partition").agg(latest.alias("latest"))
    counts = counts.groupBy("word").agg(latest_of_word.alias("latest")).select("word", "latest.*")
    added = accepted.groupBy("word").agg(sf.count("*").alias("occurrences"))
    source = counts.join(added, "word", "left").fillna(0, ["occurrences"])
    later = (
        "(s.partition = t.partition AND s.offset > t.offset)"
        " OR (s.partition <> t.partition AND s.event_time > t.event_time)"
    )
    more = {"occurrences": "t.occurrences + s.occurrences"}
    newest = {name: f"s.{name}" for name in ("count", "partition", "offset", "event_time")}
    merge = DeltaTable.forPath(batch.spark, batch.tables.path("word_counts")).alias("t")
    with _once(batch):
        (
            merge.merge(source.alias("s"), "t.word = s.word")
            .whenMatchedUpdate(later, set={**more, **newest})
            .whenMatchedUpdate(set=more)
            .whenNotMatchedInsertAll()
            .execute()
        )


def _survey(tables: Tables, rows: DataFrame, records: DataFrame, number: int) -> Batch:
    """One pass over the batch for all that later steps want to know of it."""
    good = sf.col("reason").isNull()
    minute = sf.when(good, sf.unix_seconds(sf.date_trunc("minute", "event_time")))
    source_offset = sf.when(good, sf.col("source_offset"))
    facts = records.agg(
        sf.count("*").alias("size"),
        sf.count("reason").alias("malformed"),
        sf.min(source_offset).alias("least"),
        sf.max(source_offset).alias("greatest"),
        sf.count_if(good & sf.col("source_offset").isNull()).alias("untold"),
        sf.min(minute).alias("first"),
        sf.max(minute).alias("last"),
    ).first()
    assert facts is not None, "an aggregate without groups has one row"
    return Batch(
        tables=tables,
        number=number,
        rows=rows,
        records=records,
        size=facts["size"],
        malformed=facts["malformed"],
        source_offsets=None if facts["least"] is None else (facts["least"], facts["greatest"]),
        tells_no_offset=facts["untold"] > 0,
        minutes=None if facts["first"] is None else (_utc(facts["first"]), _utc(facts["last"])),
    )


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _accepted(batch: Batch) -> DataFrame:
    """The good records that belong to silver: the first of each id, unless silver has another record of that id."""
    order = Window.partitionBy("id").orderBy("partition", "offset")
    first = batch.good.withColumn("_place", sf.row_number().over(order)).where("_place = 1")
    silver = batch.tables.read(batch.spark, "silver").where(_may_hold_ids_of(batch))
    held = silver.select("id", sf.struct("partition", "offset").alias("_held"))
    this_one = sf.col("_held") == sf.struct("partition", "offset")
    return first.join(held, "id", "left").where(sf.col("_held").isNull() | this_one).drop("_held")


def _may_hold_ids_of(batch: Batch) -> Column:
    """True for all rows of silver whose id may be in the batch: equal ids have equal source offsets."""
    held = sf.lit(False)
    if batch.source_offsets is not None:
        held = held | sf.col("source_offset").between(*batch.source_offsets)
    if batch.tells_no_offset:
        held = held | sf.col("source_offset").isNull()
    return held


def _append(batch: Batch, table: str, rows: DataFrame) -> None:
    columns = batch.tables.read(batch.spark, table).columns
    writer = rows.select(*columns).write.format("delta").mode("append")
    writer = writer.option("txnAppId", batch.query_id).option("txnVersion", batch.number)
    writer.save(batch.tables.path(table))


@contextmanager
def _once(batch: Batch) -> Iterator[None]:
    """Within it a merge is refused, silently, if its table has this query's batch already (a merge has no options)."""
    conf = batch.spark.conf
    conf.set("spark.databricks.delta.write.txnAppId", batch.query_id)
    conf.set("spark.databricks.delta.write.txnVersion", str(batch.number))
    try:
        yield
    finally:
        conf.unset("spark.databricks.delta.write.txnAppId")
        conf.unset("spark.databricks.delta.write.txnVersion")
