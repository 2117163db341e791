"""Combines what a gold table's function returns to one row per combination of keys.

See `gold` for the rules and the order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, TimestampType

from kstorm_pipeline.ddl import quoted, spare
from kstorm_pipeline.pipeline import POSITION, SINK_ORDER, SKETCH, SOURCE_ORDER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kstorm_pipeline.pipeline import Gold

PLACES = (
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
    "source_topic",
    "source_partition",
    "source_offset",
)
"""The columns that `latest` needs, unless it is ordered by a column."""

PAIRWISE = (SOURCE_ORDER, SINK_ORDER)
_SUM_UP = {"add": sf.sum, "min": sf.min, "max": sf.max, "replace": sf.max}


def gather_widely(gold: Gold, made: DataFrame) -> DataFrame:
    """Combine the rows as `gather` does, so that an intermediate sum does not overflow if the final
    one fits."""
    adds = gold.columns_by("add")
    whole = [name for name in adds if isinstance(made.schema[name].dataType, IntegralType)]
    wide = {name: sf.col(quoted([name])[0]).cast("decimal(38,0)") for name in whole}
    given = gather(gold, made.withColumns(wide))
    return given.withColumns({name: sf.col(quoted([name])[0]).cast("bigint") for name in whole})


def gather(gold: Gold, made: DataFrame) -> DataFrame:
    """Combine the function's rows to one per combination of keys, with the gold table's columns.

    `gold` is the result of `in_order`.
    """
    columns, keys = quoted(gold.columns), quoted(gold.keys)
    if not gold.columns_by("latest"):
        return _estimated(gold, made.groupBy(*keys).agg(*_sums(gold, made, again=False))).select(
            *columns
        )
    made = made.withColumn(POSITION, _position(gold, made)).select(*quoted(gold.asked), POSITION)
    best = spare(gold.columns, "newest")
    newest = sf.struct(*quoted(gold.columns_by("latest")), POSITION)
    if gold.order in PAIRWISE:
        topic, partition = spare(gold.columns, "topic"), spare(gold.columns, "partition")
        made = made.withColumns(
            {topic: sf.col(f"{POSITION}.topic"), partition: sf.col(f"{POSITION}.partition")}
        )
        last = sf.max_by(newest, sf.struct(f"{POSITION}.offset", f"{POSITION}.record")).alias(best)
        made = made.groupBy(*keys, topic, partition).agg(*_sums(gold, made, again=False), last)
        by_time = [f"{best}.{POSITION}.{name}" for name in ("at", "topic", "partition")]
        last = sf.max_by(best, sf.struct(*by_time)).alias(best)
    else:
        last = sf.max_by(newest, POSITION).alias(best)
    again = gold.order in PAIRWISE
    made = made.groupBy(*keys).agg(*_sums(gold, made, again=again), last)
    return _estimated(gold, made.select("*", f"{best}.*")).select(*columns, POSITION)


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
    return rows.withColumns(
        {name: sf.hll_sketch_estimate(quoted([name + SKETCH])[0]) for name in gold.distinct}
    )


def _sums(gold: Gold, rows: DataFrame, *, again: bool) -> list[Column]:
    """Return the aggregates that combine the columns without the rule `latest`.

    The second pass, `again`, over their results keeps the type of sums.
    """
    found = []
    for name, rule in gold.rules.items():
        if rule in _SUM_UP:
            column = _SUM_UP[rule](quoted([name])[0])
            keeps = rule == "add" and again
            found.append((column.cast(rows.schema[name].dataType) if keeps else column).alias(name))
    for name, values in gold.distinct.items():
        sketch = name + SKETCH
        found.append(
            (
                sf.hll_union_agg(quoted([sketch])[0])
                if again
                else sf.hll_sketch_agg(quoted([values])[0])
            ).alias(sketch)
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
