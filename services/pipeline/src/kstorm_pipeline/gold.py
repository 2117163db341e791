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
order, the offset of the record itself decides, so a replay is the latest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampType

from kstorm_pipeline.aggregates import facts_of
from kstorm_pipeline.conflicts import commit_again
from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.delta_log import DeltaLog, rows_in
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.failures import cause_of
from kstorm_pipeline.gold_overflow import (
    Apart,
    divide,
    guarded,
    is_floating,
    is_overflow,
    limit_name,
    limits,
    overflowing,
    renamed_keys,
    warn,
)
from kstorm_pipeline.gold_rows import PAIRWISE, gather, gather_widely, in_order
from kstorm_pipeline.pipeline import DEFINITION, POSITION, SKETCH, BatchId
from kstorm_pipeline.replay_lookup import any_of
from kstorm_pipeline.spans import IntegerSpan, join_spans
from kstorm_pipeline.tables import once, query_id_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from kstorm_pipeline.batch import Batch
    from kstorm_pipeline.pipeline import Gold

_MOST_HOURS = 2**63 // 1_000_000 // 3600 - 1
"""The last hour since 1970 whose end Spark can represent."""
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
    return commit_again(gold.name, lambda: _merge_once(batch, gold, rows))


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
    made = gold.function(rows)
    gold = in_order(gold, made)
    write = partial(_write, spark, path, gold, batch, log)
    if not gold.columns_by("add"):
        return write(gather(gold, made))
    apart = Apart(spark, path, gold, batch)
    made, others = apart.split(made)
    try:
        changed = write(_finite(gold, gather(gold, made)))
    except (Py4JJavaError, PySparkException) as error:
        if not is_overflow(error):
            raise
        # A repeated batch adds its rows to sums that have them already, which may overflow.
        last = DeltaLog(spark, path).last_batch(batch.query)
        if last is None or last < batch.number:
            given, new = _within_limits(spark, path, gold, made, error)
            others = new if others is None else others if new is None else others.union(new)
            apart.append(others)
            return write(given)
        changed = 0
    apart.append(others)
    return changed


def fitting(
    spark: SparkSession, path: str, gold: Gold, rows: DataFrame, batch: BatchId
) -> tuple[DataFrame, Apart, DataFrame | None]:
    """Compute the contribution of all rows of silver, for a new table at `path`.

    Returns it, and the rows of keys that are kept apart, with their place.
    """
    made = gold.function(rows)
    gold = in_order(gold, made)
    given, apart = _finite(gold, gather(gold, made)), Apart(spark, path, gold, batch)
    if not gold.columns_by("add"):
        return given, apart, None
    try:
        given.persist().count()
    except (Py4JJavaError, PySparkException) as error:
        given.unpersist()
        if not is_overflow(error):
            raise
        given, others = _within_limits(spark, None, gold, made, error)
        return given, apart, others
    return given, apart, None


def _write(
    spark: SparkSession, path: str, gold: Gold, batch: BatchId, log: DeltaLog, given: DataFrame
) -> int:
    with once(spark, batch.query, batch.number):
        return _merge(spark, path, gold, given) if log.files else _begin(spark, path, given)


def _within_limits(
    spark: SparkSession, path: str | None, gold: Gold, made: DataFrame, error: Exception
) -> tuple[DataFrame, DataFrame | None]:
    """Return contributions that fit, and the rows of keys that are kept apart from now on.

    `path` is the table's, or None if it is empty. Raises PipelineError if no sum is the cause.
    """
    empty = gather(gold, made)
    schema = empty.schema
    table = empty.where(sf.lit(False)) if path is None else spark.read.format("delta").load(path)
    try:
        over = overflowing(gold, made, table, schema)
    except (Py4JJavaError, PySparkException):
        over = None  # then it is not the sum but a function that raises
    if over is None:
        raise PipelineError(
            f"the gold table {gold.name!r} cannot be written: {cause_of(error)}. "
            f"If the function {gold.function.__name__} computes the number, use try_add, "
            "try_multiply or try_cast there, and start again; the run continues from here"
        ) from error
    warn(gold, path or gold.name, over, schema)
    if gold.overflow == "apart":
        inside, outside = divide(gold, made, over)
        return _finite(gold, gather_widely(gold, inside)), outside
    return _saturated(gold, made, over), None


def _saturated(gold: Gold, made: DataFrame, over: DataFrame) -> DataFrame:
    """Return the contributions, with the limits in place of the sums that exceed them."""
    adds = gold.columns_by("add")
    names = quoted(adds)
    marked, same = renamed_keys(gold, made, over)
    rows = made.join(sf.broadcast(marked), same, "left")
    for name, column in zip(adds, names, strict=True):
        rows = rows.withColumn(name, sf.when(sf.col(limit_name(name)).isNull(), sf.col(column)))
    given = gather_widely(gold, rows.select(*quoted(made.columns)))
    marked, same = renamed_keys(gold, given, over)
    found = given.join(sf.broadcast(marked), same, "left")
    for name, column in zip(adds, names, strict=True):
        found = found.withColumn(name, sf.coalesce(limit_name(name), column))
    return found.select(*quoted(given.columns))


def _finite(gold: Gold, given: DataFrame) -> DataFrame:
    """Make a sum raise if it is infinite or not a number, as sums of other types do that do not
    fit."""
    if gold.overflow != "apart":
        return given
    for name in gold.columns_by("add"):
        kind = given.schema[name].dataType
        if is_floating(kind):
            given = given.withColumn(name, sf.expr(guarded(quoted([name])[0], kind)))
    return given


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
            merging.whenMatchedUpdate(set=_changes(gold, given.schema))
            .whenNotMatchedInsertAll()
            .execute()
            .first()
        )
        return int(done["num_affected_rows"]) if done else 0
    finally:
        given.unpersist()


def _changes(gold: Gold, schema: StructType) -> dict[str, str]:
    """Return the new value of each column for a row `t` of the table that matches a row `s`."""
    changes = {}
    for name, rule in gold.rules.items():
        column = quoted([name])[0]
        if rule == "latest":
            changes[column] = f"CASE WHEN {_later(gold)} THEN s.{column} ELSE t.{column} END"
        elif rule == "add":
            changes[column] = _added(gold, column, schema[name].dataType)
        else:
            changes[column] = _PUT_TOGETHER[rule].format(column)
    for name in gold.distinct:
        changes[quoted([name + SKETCH])[0]] = _union(name)
        changes[quoted([name])[0]] = f"hll_sketch_estimate({_union(name)})"
    if gold.columns_by("latest"):
        changes[POSITION] = f"CASE WHEN {_later(gold)} THEN s.{POSITION} ELSE t.{POSITION} END"
    return changes


def _added(gold: Gold, column: str, kind: DataType) -> str:
    """Return the new sum. With `overflow="saturate"`, a limit that it has reached stays."""
    total = _PUT_TOGETHER["add"].format(column)
    if gold.overflow == "apart":
        return guarded(total, kind)
    at_limit = f"IN ({', '.join(limits(kind))})"
    return (
        f"CASE WHEN t.{column} {at_limit} THEN t.{column} "
        f"WHEN s.{column} {at_limit} THEN s.{column} ELSE {total} END"
    )


def _union(name: str) -> str:
    """Return the union of both rows' sketches."""
    ours, theirs = (f"{row}.{quoted([name + SKETCH])[0]}" for row in "st")
    return f"coalesce(hll_union({ours}, {theirs}), {ours}, {theirs})"


def _later(gold: Gold) -> str:
    """Return a condition that is true if row `s` is later than row `t`."""
    if gold.order not in PAIRWISE:
        return f"s.{POSITION} > t.{POSITION}"
    one_log = f"(s.{POSITION}.topic = t.{POSITION}.topic AND s.{POSITION}.partition = t.{POSITION}.partition)"
    ours, theirs = (f"struct({row}.{POSITION}.offset, {row}.{POSITION}.record)" for row in "st")
    # A record may have no timestamp. Any other is later.
    ours_at, theirs_at = f"s.{POSITION}.at", f"t.{POSITION}.at"
    by_time = f"({ours_at} > {theirs_at} OR ({theirs_at} IS NULL AND {ours_at} IS NOT NULL))"
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
        hours = list(join_spans(IntegerSpan(("", 0), each, each) for each in found[0]))
        if any(max(abs(span.first), abs(span.last)) > _MOST_HOURS for span in hours):
            continue
        within = any_of(
            (column >= _hour(span.first)) & (column < _hour(span.last + 1)) for span in hours
        )
        near = near & (within | column.isNull() if found[1] else within)
    return near


def _hour(hours: int) -> Column:
    """Return the timestamp of this many hours after the beginning of 1970."""
    return sf.timestamp_seconds(sf.lit(hours * 3600))
