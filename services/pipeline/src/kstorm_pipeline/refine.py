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

The look-up of ids is in proportion to the batch, not to silver. An id tells topic, partition and offset of its message. Silver's
files hold one bucket of source partitions each, and Delta knows of each file the least and the greatest offset. So the
batch's ranges of offsets, by topic and partition, meet no file if its messages are new, and those of its time if it has
a replay. Of ids in another form nothing is known: a batch with one reads all of them. The merge into word_counts reads
that table, which has one row a word.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as sf

from kstorm_pipeline.records import read_records, readable_timestamp
from kstorm_pipeline.spans import Span, join_spans
from kstorm_pipeline.tables import query_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_SOURCE = ("source_topic", "source_partition", "source_offset", "source_bucket")
_TYPED = ("reason", "word", "count", "id", "emitted_at", "event_time", "partition", "offset", *_SOURCE)
_CELL = 256
"""Offsets of a source partition are looked at in cells of so many, to see where the batch has none."""
_MOST_CELLS = 20_000
"""More of them are not collected."""
_MOST_SOURCES = 200
"""Ids of more topics and partitions than that name something else."""
_MOST_GAPS = 64
"""How many gaps in its offsets, or in its hours, a batch tells Delta of."""


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
    sources: list[Span] | None
    """The source offsets in the ids of the good records, by topic and partition; None if these are too many to tell."""
    tells_no_offset: bool
    """Whether some good record has an id from which no source offset can be read."""
    hours: list[Span]
    """The hours since 1970 in which good records lie."""

    @property
    def spark(self) -> SparkSession:
        """The session of this query; what is set on it concerns no other query."""
        return self.records.sparkSession

    @property
    def good(self) -> DataFrame:
        """The records that fit the schema, replays among them."""
        return self.records.where(sf.col("reason").isNull())


def write_quarantine(batch: Batch) -> None:
    """Append the records that do not fit the schema."""
    malformed = read_records(batch.rows).where(sf.col("reason").isNotNull())
    # A timestamp that Python cannot read would make the whole table unreadable there; the reason has it.
    batch.tables.append("quarantine", malformed.withColumn("timestamp", readable_timestamp()), batch.number)


def write_silver(batch: Batch, accepted: DataFrame) -> None:
    """Append the accepted records; on a second run they are there, and Delta refuses the commit."""
    # Each task writes a file for each bucket that it has.
    batch.tables.append("silver", accepted.repartition("source_bucket"), batch.number)


def merge_counts_per_minute(batch: Batch, accepted: DataFrame) -> None:
    """Add the accepted records to the minutes of their Kafka timestamps."""
    start = sf.date_trunc("minute", "event_time").alias("window_start")
    added = accepted.groupBy(start, "word").agg(sf.count("*").alias("occurrences"))
    added = added.withColumn("window_end", sf.expr("window_start + INTERVAL 1 MINUTE"))
    same = sf.expr("t.word = s.word AND t.window_start = s.window_start")
    # The ranges say nothing new; as literals they tell Delta which files cannot match.
    same = same & _any(
        (sf.col("t.window_start") >= _hour(span.first)) & (sf.col("t.window_start") < _hour(span.last + 1))
        for span in batch.hours
    )
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
    """Find out all that later steps want to know of the batch as a whole."""
    good = sf.col("reason").isNull()
    hour = sf.floor(sf.unix_seconds("event_time") / 3600)
    facts = records.agg(
        sf.count("*").alias("size"),
        sf.count("reason").alias("malformed"),
        sf.count_if(good & sf.col("source_offset").isNull()).alias("untold"),
        sf.collect_set(sf.when(good, hour)).alias("hours"),
    ).first()
    assert facts is not None, "an aggregate without groups has one row"
    return Batch(
        tables=tables,
        number=number,
        rows=rows,
        records=records,
        size=facts["size"],
        malformed=facts["malformed"],
        sources=_sources(records.where(good & sf.col("source_offset").isNotNull())),
        tells_no_offset=facts["untold"] > 0,
        hours=join_spans((Span(("", 0), hour, hour) for hour in facts["hours"]), _MOST_GAPS),
    )


def _sources(records: DataFrame) -> list[Span] | None:
    """The source offsets of records whose ids tell them."""
    for cell in (sf.expr(f"source_offset DIV {_CELL}"), sf.lit(0)):
        cells = records.groupBy("source_topic", "source_partition", cell.alias("cell"))
        found = cells.agg(sf.min("source_offset"), sf.max("source_offset")).limit(_MOST_CELLS + 1).collect()
        if len(found) <= _MOST_CELLS:
            spans = join_spans((Span((row[0], row[1]), row[3], row[4]) for row in found), _MOST_GAPS)
            return spans if len({span.owner for span in spans}) <= _MOST_SOURCES else None
    return None


def _hour(hours: int) -> Column:
    """The moment so many hours after the beginning of 1970."""
    return sf.timestamp_seconds(sf.lit(hours * 3600))


def _accepted(batch: Batch) -> DataFrame:
    """The good records that belong to silver: the first of each id, unless silver has another record of that id."""
    order = Window.partitionBy("id").orderBy("partition", "offset")
    first = batch.good.withColumn("_place", sf.row_number().over(order)).where("_place = 1")
    silver = batch.tables.read(batch.spark, "silver").where(_may_hold_ids_of(batch))
    held = silver.select("id", sf.struct("partition", "offset").alias("_held"))
    this_one = sf.col("_held") == sf.struct("partition", "offset")
    return first.join(held, "id", "left").where(sf.col("_held").isNull() | this_one).drop("_held")


def _may_hold_ids_of(batch: Batch) -> Column:
    """True for all rows of silver whose id may be in the batch: equal ids have equal sources."""
    if batch.sources is None:
        held = sf.col("source_offset").isNotNull()
    else:
        held = _any(
            (sf.col("source_topic") == span.owner[0])
            & (sf.col("source_partition") == span.owner[1])
            & sf.col("source_offset").between(span.first, span.last)
            for span in batch.sources
        )
    return held | sf.col("source_offset").isNull() if batch.tells_no_offset else held


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(or_, conditions, sf.lit(False))


@contextmanager
def _once(batch: Batch) -> Iterator[None]:
    """Within it a merge is refused, silently, if its table has this query's batch already (a merge has no options)."""
    conf = batch.spark.conf
    conf.set("spark.databricks.delta.write.txnAppId", query_id_of(batch.spark))
    conf.set("spark.databricks.delta.write.txnVersion", str(batch.number))
    try:
        yield
    finally:
        conf.unset("spark.databricks.delta.write.txnAppId")
        conf.unset("spark.databricks.delta.write.txnVersion")
