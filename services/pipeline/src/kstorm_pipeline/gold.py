"""Gold tables: what a batch gives to each, and the merge that puts it in.

A gold table has one row for each combination of its keys. The pipeline's function says what rows of silver give; rows with the same
keys become one here, and then one with the table's row, by the rule of each column:

    add       the sum                 latest    that of the row which is later by the table's order
    min, max  the least, the greatest replace   that of the last batch, for what the keys determine
    distinct  how many different values there are, about: a sketch of them (HyperLogLog), and its estimate

Each merge is one commit that carries its batch, so that Delta refuses it when it is there. So is the append that begins a table.
`add` needs nothing more: rows of silver come once. The others would not even need that: what is taken twice changes nothing.

**Order.** By source, a row is later than another if the message that it was made of has the higher offset; between source
partitions the record's Kafka timestamp tells. So a replay that comes late, of a message whose first record never arrived, does not
put old values over new ones. By sink, the same is said of the record itself, and a replay is the latest.
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
from kstorm_pipeline.lookups import any_of
from kstorm_pipeline.pipeline import DEFINITION, POSITION, SINK_ORDER, SKETCH, SOURCE_ORDER, BatchId
from kstorm_pipeline.spans import Span, join_spans
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
"""What `latest` wants to know of a row, if it is not ordered by a column."""

_PAIRWISE = (SOURCE_ORDER, SINK_ORDER)
_SUM_UP = {"add": sf.sum, "min": sf.min, "max": sf.max, "replace": sf.max}
_PUT_TOGETHER = {
    "add": "coalesce(t.{0} + s.{0}, t.{0}, s.{0})",
    "min": "least(t.{0}, s.{0})",
    "max": "greatest(t.{0}, s.{0})",
    "replace": "s.{0}",
}


def merge_gold(batch: Batch, gold: Gold, rows: DataFrame) -> int:
    """Merge what these rows of silver give to the gold table; on a second run it is there, and Delta refuses the commit. Returns
    how many rows of the table that changed or added."""
    return commit_again(batch.spark, gold.name, lambda: _merge_once(batch, gold, rows))


def _merge_once(batch: Batch, gold: Gold, rows: DataFrame) -> int:
    path = batch.tables.path(gold.name)
    log = DeltaLog(batch.spark, path)
    declared = log.property(DEFINITION)
    if declared not in (None, gold.declared):
        raise PipelineError(
            f"the table {path} was put in place with another declaration while this run went on: it is {declared}, and this run has"
            f" {gold.declared}. End this run; only one may write the tables"
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
    """Merge what rows of silver give to a table of this form, in a commit that carries the batch; return how many rows.
    `log` is the table's, if it has just been read."""
    log = log or DeltaLog(spark, path)
    gold, given = give(gold, rows)
    with once(spark, batch.query, batch.number):
        return _merge(spark, path, gold, given) if log.files else _begin(spark, path, given)


def _begin(spark: SparkSession, path: str, given: DataFrame) -> int:
    """Append to a table without rows: a merge would look for them at length."""
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
    """What rows of silver give to a gold table, one row for each combination of keys; with the gold as `in_order` has it."""
    made = gold.function(rows)
    gold = in_order(gold, made)
    return gold, gather(gold, made)


def gather(gold: Gold, made: DataFrame) -> DataFrame:
    """One row for each combination of keys, with the columns of the gold table, of what its function made; `gold` is `in_order`."""
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
    """The table, ordered by what its function's rows have. Rows that the function has grouped come from no single place: unless the
    user has said an order, the first of the `latest` columns that is a time tells."""
    if gold.ordered or all(name in made.columns for name in PLACES):
        return gold
    times = [name for name in gold.columns_by("latest") if name in made.columns]
    times = [name for name in times if isinstance(made.schema[name].dataType, TimestampType)]
    return replace(gold, order=times[0]) if times else gold


def _estimated(gold: Gold, rows: DataFrame) -> DataFrame:
    """The rows with what their sketches say."""
    return rows.withColumns({name: sf.hll_sketch_estimate(name + SKETCH) for name in gold.distinct})


def _sums(gold: Gold, rows: DataFrame) -> list[Column]:
    """What becomes of the columns that are not `latest` when rows become one; sums of sums keep their type."""
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
    """Where a row comes from, as the table's order wants it."""
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
    """What becomes of each column of a row `t` of the table that there is a row `s` for."""
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
    """The sketch of the values of both rows."""
    ours, theirs = (f"{row}.{quoted([name + SKETCH])[0]}" for row in "st")
    return f"coalesce(hll_union({ours}, {theirs}), {ours}, {theirs})"


def _later(gold: Gold) -> str:
    """Whether the row `s` is later than the row `t`."""
    if gold.order not in _PAIRWISE:
        return f"s.{POSITION} > t.{POSITION}"
    one_log = f"(s.{POSITION}.topic = t.{POSITION}.topic AND s.{POSITION}.partition = t.{POSITION}.partition)"
    ours, theirs = (f"struct({row}.{POSITION}.offset, {row}.{POSITION}.record)" for row in "st")
    by_time = f"s.{POSITION}.at > t.{POSITION}.at"
    return f"(({one_log} AND {ours} > {theirs}) OR (NOT {one_log} AND {by_time}))"


def _near(gold: Gold, given: DataFrame) -> Column:
    """True wherever keys are the same. It says nothing new, but as literals, which tell Delta which files cannot match."""
    times = [key for key in gold.keys if isinstance(given.schema[key].dataType, TimestampType)]
    near = sf.lit(True)
    for key in times:
        hour = sf.floor(sf.unix_seconds(quoted([key])[0]) / 3600)
        found = facts_of(
            given, sf.collect_set(hour), sf.count_if(sf.col(quoted([key])[0]).isNull())
        )
        column = sf.col(f"t.{quoted([key])[0]}")
        hours = join_spans(Span(("", 0), each, each) for each in found[0])
        within = any_of(
            (column >= _hour(span.first)) & (column < _hour(span.last + 1)) for span in hours
        )
        near = near & (within | column.isNull() if found[1] else within)
    return near


def _hour(hours: int) -> Column:
    """The moment so many hours after the beginning of 1970."""
    return sf.timestamp_seconds(sf.lit(hours * 3600))
