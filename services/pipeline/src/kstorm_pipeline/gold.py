"""Gold tables: computes a batch's contribution to each table and merges it.

A gold table has one row per combination of its keys. The pipeline's function derives rows from
silver. Rows with the same keys are combined here, and the result is combined with the table's row.
Each column has a rule:

    add       the sum                       latest    the value of the row that is later in the order
    min, max  the minimum, the maximum      replace   the last batch's value, if the keys determine it
    distinct  the approximate number of distinct values: a HyperLogLog sketch and its estimate

Each merge is one commit that carries its batch, so Delta refuses it if the table already has the
batch. The same holds for the append to an empty table. `add` needs nothing more, because each row
of silver arrives once. The other rules would not even need that: applying a row twice changes
nothing.

**Order.** With the source order, a row is later than another if its source message has the higher
offset. Between source partitions, the record's Kafka timestamp decides. So a late replay of a
message whose first record never arrived does not replace newer values by old ones. With the sink
order, the same applies to the record itself, and a replay is the latest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampType

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.conflicts import commit_again
from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.delta_log import DeltaLog, rows_in
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.pipeline import DEFINITION, POSITION, SINK_ORDER, SKETCH, SOURCE_ORDER, BatchId
from kstorm_pipeline.replay_lookup import any_of
from kstorm_pipeline.spans import IntegerSpan, join_spans
from kstorm_pipeline.tables import once, query_id_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kstorm_pipeline.pipeline import Gold
    from kstorm_pipeline.refine import Batch

PLACES = (
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
    "source_topic",
    "source_partition",
    "source_offset",
)
"""The columns that `latest` needs, unless it is ordered by a column."""

_PAIRWISE = (SOURCE_ORDER, SINK_ORDER)
_SUM_UP = {"add": sf.sum, "min": sf.min, "max": sf.max, "replace": sf.max}
_PUT_TOGETHER = {
    "add": "coalesce(t.{0} + s.{0}, t.{0}, s.{0})",
    "min": "least(t.{0}, s.{0})",
    "max": "greatest(t.{0}, s.{0})",
    "replace": "s.{0}",
}


def merge_gold(batch: Batch, gold: Gold, rows: DataFrame) -> int:
    """Merge a batch's rows of silver into the gold table. Return the number of affected rows.

    If the batch is repeated, Delta refuses the commit.
    """
    return commit_again(batch.spark, gold.name, lambda: _merge_once(batch, gold, rows))


def _merge_once(batch: Batch, gold: Gold, rows: DataFrame) -> int:
    path = batch.tables.path(gold.name)
    log = DeltaLog(batch.spark, path)
    declared = log.property(DEFINITION)
    if declared not in (None, gold.declared):
        raise PipelineError(
            f"the table {path} was replaced by one with another declaration during this run: "
            f"it is {declared}, and this run has {gold.declared}. "
            "End this run: only one run may write the tables"
        )
    return merge(
        batch.spark, path, gold, rows, BatchId(query_id_of(batch.spark), batch.number), log
    )


def merge(
    spark: SparkSession,
    path: str,
    gold: Gold,
    rows: DataFrame,
    batch: BatchId,
    log: DeltaLog | None = None,
) -> int:
    """Merge rows of silver into a table of this form, in a commit that carries the batch.

    Returns the number of changed or added rows. `log` is the table's log if it has just been read.
    """
    log = log or DeltaLog(spark, path)
    gold, given = give(gold, rows)
    with once(spark, batch.query, batch.number):
        return _merge(spark, path, gold, given) if log.files else _begin(spark, path, given)


def _begin(spark: SparkSession, path: str, given: DataFrame) -> int:
    """Append to an empty table. A merge would spend time searching it for matches."""
    given.write.format("delta").mode("append").save(path)
    return rows_in(spark, path)


def _merge(spark: SparkSession, path: str, gold: Gold, given: DataFrame) -> int:
    given.persist()
    try:
        table = DeltaTable.forPath(spark, path).alias("t")
        same = sf.expr(" AND ".join(f"t.{key} <=> s.{key}" for key in quoted(gold.keys)))
        merging = table.merge(given.alias("s"), same & _near(gold, given))
        done = (
            merging.whenMatchedUpdate(set=_changes(gold))
            .whenNotMatchedInsertAll()
            .execute()
            .first()
        )
        return int(done["num_affected_rows"]) if done else 0
    finally:
        given.unpersist()


def give(gold: Gold, rows: DataFrame) -> tuple[Gold, DataFrame]:
    """Compute the contribution of rows of silver to a gold table, one row per combination of keys.

    Returns it with the gold table's declaration from `in_order`.
    """
    made = gold.function(rows)
    gold = in_order(gold, made)
    return gold, gather(gold, made)


def gather(gold: Gold, made: DataFrame) -> DataFrame:
    """Combine the function's rows to one per combination of keys, with the gold table's columns.

    `gold` is the result of `in_order`.
    """
    columns, keys = quoted(gold.columns), quoted(gold.keys)
    if not gold.columns_by("latest"):
        return _estimated(gold, made.groupBy(*keys).agg(*_sums(gold, made))).select(*columns)
    made = made.withColumn(POSITION, _position(gold, made)).select(*quoted(gold.asked), POSITION)
    newest = sf.struct(*quoted(gold.columns_by("latest")), POSITION)
    if gold.order in _PAIRWISE:
        made = made.withColumn("__topic", sf.col(f"{POSITION}.topic")).withColumn(
            "__partition", sf.col(f"{POSITION}.partition")
        )
        last = sf.max_by(newest, sf.struct(f"{POSITION}.offset", f"{POSITION}.record")).alias(
            "__newest"
        )
        made = made.groupBy(*keys, "__topic", "__partition").agg(*_sums(gold, made), last)
        by_time = [f"__newest.{POSITION}.{name}" for name in ("at", "topic", "partition")]
        last = sf.max_by("__newest", sf.struct(*by_time)).alias("__newest")
    else:
        last = sf.max_by(newest, POSITION).alias("__newest")
    made = made.groupBy(*keys).agg(*_sums(gold, made), last)
    return _estimated(gold, made.select("*", "__newest.*")).select(*columns, POSITION)


def in_order(gold: Gold, made: DataFrame) -> Gold:
    """Return the table's declaration with an order that the function's rows support.

    Rows that the function has grouped have no single source. Unless the user has chosen an order,
    the first timestamp among the `latest` columns then decides.
    """
    if gold.ordered or all(name in made.columns for name in PLACES):
        return gold
    times = [name for name in gold.columns_by("latest") if name in made.columns]
    times = [name for name in times if isinstance(made.schema[name].dataType, TimestampType)]
    return replace(gold, order=times[0]) if times else gold


def _estimated(gold: Gold, rows: DataFrame) -> DataFrame:
    """Add the estimates of the rows' sketches."""
    return rows.withColumns({name: sf.hll_sketch_estimate(name + SKETCH) for name in gold.distinct})


def _sums(gold: Gold, rows: DataFrame) -> list[Column]:
    """Return the aggregates that combine the columns without the rule `latest`.

    A second pass over their results keeps the type of sums.
    """
    found = []
    for name, rule in gold.rules.items():
        if rule in _SUM_UP:
            column = _SUM_UP[rule](quoted([name])[0])
            again = rule == "add" and "__newest" in rows.columns
            found.append((column.cast(rows.schema[name].dataType) if again else column).alias(name))
    for name, values in gold.distinct.items():
        sketch = name + SKETCH
        again = "__newest" in rows.columns
        found.append(
            (sf.hll_union_agg(sketch) if again else sf.hll_sketch_agg(quoted([values])[0])).alias(
                sketch
            )
        )
    return found


def _position(gold: Gold, rows: DataFrame) -> Column:
    """Return a row's position in the table's order."""
    own = {
        "topic": sf.lit(""),
        "partition": sf.col("kafka_partition"),
        "offset": sf.col("kafka_offset"),
    }
    if gold.order == SINK_ORDER:
        parts = own
    elif gold.order == SOURCE_ORDER:
        told = sf.col("source_offset").isNotNull()
        source = {name: sf.col(f"source_{name}") for name in own}
        parts = {name: sf.when(told, source[name]).otherwise(own[name]) for name in own}
    else:
        parts = {"by": sf.col(quoted([gold.order])[0])}
        if all(name in rows.columns for name in PLACES):
            parts |= own
        return sf.struct(*(column.alias(name) for name, column in parts.items()))
    parts |= {"record": sf.col("kafka_offset"), "at": sf.col("kafka_timestamp")}
    return sf.struct(*(column.alias(name) for name, column in parts.items()))


def _changes(gold: Gold) -> dict[str, str]:
    """Return the new value of each column for a row `t` of the table that matches a row `s`."""
    changes = {}
    for name, rule in gold.rules.items():
        column = quoted([name])[0]
        if rule == "latest":
            changes[column] = f"CASE WHEN {_later(gold)} THEN s.{column} ELSE t.{column} END"
        else:
            changes[column] = _PUT_TOGETHER[rule].format(column)
    for name in gold.distinct:
        changes[quoted([name + SKETCH])[0]] = _union(name)
        changes[quoted([name])[0]] = f"hll_sketch_estimate({_union(name)})"
    if gold.columns_by("latest"):
        changes[POSITION] = f"CASE WHEN {_later(gold)} THEN s.{POSITION} ELSE t.{POSITION} END"
    return changes


def _union(name: str) -> str:
    """Return the union of both rows' sketches."""
    ours, theirs = (f"{row}.{quoted([name + SKETCH])[0]}" for row in "st")
    return f"coalesce(hll_union({ours}, {theirs}), {ours}, {theirs})"


def _later(gold: Gold) -> str:
    """Return the condition that row `s` is later than row `t`."""
    if gold.order not in _PAIRWISE:
        return f"s.{POSITION} > t.{POSITION}"
    one_log = f"(s.{POSITION}.topic = t.{POSITION}.topic AND s.{POSITION}.partition = t.{POSITION}.partition)"
    ours, theirs = (f"struct({row}.{POSITION}.offset, {row}.{POSITION}.record)" for row in "st")
    by_time = f"s.{POSITION}.at > t.{POSITION}.at"
    return f"(({one_log} AND {ours} > {theirs}) OR (NOT {one_log} AND {by_time}))"


def _near(gold: Gold, given: DataFrame) -> Column:
    """Return a condition that is true wherever the keys are equal.

    It is redundant, but its literals show Delta which files cannot match.
    """
    times = [key for key in gold.keys if isinstance(given.schema[key].dataType, TimestampType)]
    near = sf.lit(True)
    for key in times:
        hour = sf.floor(sf.unix_seconds(quoted([key])[0]) / 3600)
        found = facts_of(
            given, sf.collect_set(hour), sf.count_if(sf.col(quoted([key])[0]).isNull())
        )
        column = sf.col(f"t.{quoted([key])[0]}")
        hours = join_spans(IntegerSpan(("", 0), each, each) for each in found[0])
        within = any_of(
            (column >= _hour(span.first)) & (column < _hour(span.last + 1)) for span in hours
        )
        near = near & (within | column.isNull() if found[1] else within)
    return near


def _hour(hours: int) -> Column:
    """Return the timestamp of this many hours after the beginning of 1970."""
    return sf.timestamp_seconds(sf.lit(hours * 3600))
