"""Handles keys of a gold table whose sums no longer fit their columns.

One key must not end the run, and every run after it. A merge is first tried without a check, so a
table without such a key costs nothing extra. If the merge raises, this module finds the keys, and
the declaration decides:

- `overflow="apart"` (the default): the row stays as it was. From this batch on the function's rows
  for the key are appended to the table `<name>_overflow`. Nothing is lost: the sum of the row and
  these rows is correct.
- `overflow="saturate"`: the column gets the greatest or least value of its type, and keeps it.

**A repeated batch changes nothing.** The keys of earlier batches are kept apart, and the keys that
overflow in this batch. The rows of both are appended, in a commit that carries the batch, before
the gold table has the batch. So a run that repeats the batch finds the same keys, or finds that the
gold table has the batch already.
"""

from __future__ import annotations

import logging
import re
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, FractionalType, IntegralType

from kstorm_pipeline.ddl import quoted, spare
from kstorm_pipeline.pipeline import APART, APART_BATCH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from kstorm_pipeline.pipeline import BatchId, Gold

logger = logging.getLogger(__name__)

_SIGN = "KSTORM_NOT_FINITE"
_OVERFLOW = re.compile(
    rf"OVERFLOW|OUT_OF_RANGE|OUT_OF_SUPPORTED_RANGE|{_SIGN}|(?:long|integer) overflow"
)
_KEYS_SHOWN = 5


def is_overflow(error: Exception) -> bool:
    """Return True if an error may come from a sum that does not fit its type."""
    return _OVERFLOW.search(str(error)) is not None


def guarded(column: str, kind: DataType) -> str:
    """Return the SQL of a sum that raises if it is infinite or not a number.

    Sums of other types raise without this.
    """
    if not is_floating(kind):
        return column
    finite = f"NOT isnan({column}) AND abs({column}) < double('Infinity')"
    raised = f"CAST(raise_error('{_SIGN}') AS DOUBLE)"
    return f"CASE WHEN {column} IS NULL OR ({finite}) THEN {column} ELSE {raised} END"


def is_floating(kind: DataType) -> bool:
    return isinstance(kind, FractionalType) and not isinstance(kind, DecimalType)


def limits(kind: DataType) -> tuple[str, str]:
    """Return the least and the greatest value of a sum's type, in SQL."""
    if isinstance(kind, DecimalType):
        digits = "9" * (kind.precision - kind.scale) + "." + "9" * kind.scale
        most = digits if digits[0] != "." else f"0{digits}"
        least, name = f"-{most}", kind.simpleString()
    elif is_floating(kind):
        least, most, name = "-Infinity", "Infinity", "double"
    else:
        least, most, name = str(-(2**63)), str(2**63 - 1), "bigint"
    return f"CAST('{least}' AS {name})", f"CAST('{most}' AS {name})"


class Apart:
    """The rows of a gold table's keys that are kept apart."""

    def __init__(self, spark: SparkSession, path: str, gold: Gold, batch: BatchId) -> None:
        self._spark, self._gold, self._batch = spark, gold, batch
        self.path = path + APART
        self._exists = bool(DeltaTable.isDeltaTable(spark, self.path))

    def split(self, made: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Divide the function's rows: those to merge, and those of keys that are apart, if any."""
        if not self._exists:
            return made, None
        found = self._spark.read.format("delta").load(self.path)
        keys = found.where(sf.col(APART_BATCH) < self._batch.number).select(
            *quoted(self._gold.keys)
        )
        return divide(self._gold, made, keys.distinct())

    def append(self, rows: DataFrame | None) -> None:
        """Append rows of keys that are apart. A repeated batch adds nothing."""
        if rows is None or rows.isEmpty():
            return
        rows = rows.select(*quoted(self._gold.asked))
        rows = rows.withColumn(APART_BATCH, sf.lit(self._batch.number).cast("bigint"))
        writer = rows.write.format("delta").mode("append").option("txnAppId", self._batch.query)
        writer.option("txnVersion", self._batch.number).save(self.path)


def divide(gold: Gold, made: DataFrame, keys: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Divide rows into those without and those with one of the keys."""
    renamed, same = renamed_keys(gold, made, keys)
    return made.join(renamed, same, "left_anti"), made.join(renamed, same, "left_semi")


def renamed_keys(gold: Gold, made: DataFrame, keys: DataFrame) -> tuple[DataFrame, Column]:
    """Return `keys` with names that `made` does not have, and a condition that is true if a
    row has one of them."""
    columns = quoted(gold.keys)
    names = [spare(made.columns, f"key_{place}") for place in range(len(columns))]
    others = [name for name in keys.columns if name not in gold.keys]
    kept = [sf.col(column).alias(name) for column, name in zip(columns, names, strict=True)]
    renamed = keys.select(*kept, *quoted(others))
    pairs = zip(columns, names, strict=True)
    return renamed, reduce(and_, (sf.col(own).eqNullSafe(sf.col(key)) for own, key in pairs))


def overflowing(
    gold: Gold, made: DataFrame, table: DataFrame, schema: StructType
) -> DataFrame | None:
    """Return the keys whose sums do not fit, or None if all fit.

    Each has, by `limit_name`, the limit that a column exceeds, or null. `schema` is the table's.
    """
    keys, adds = quoted(gold.keys), gold.columns_by("add")
    sums = [each for name in adds for each in _sums(name, schema[name].dataType)]
    new = made.groupBy(*keys).agg(*sums)
    old = table.select(*keys, *(sf.col(quoted([name])[0]).alias(_of("old", name)) for name in adds))
    renamed, same = renamed_keys(gold, new, old)
    both = new.join(renamed, same, "left")
    found = both.select(*keys, *(_limit(name, schema[name].dataType) for name in adds))
    over = found.where(reduce(or_, (sf.col(limit_name(name)).isNotNull() for name in adds)))
    # The table changes afterwards, and the result must not.
    over = over.localCheckpoint()
    return None if over.isEmpty() else over


def limit_name(name: str) -> str:
    """Return the quoted column of `overflowing` for a summed column."""
    return _of("limit", name, quote=True)


def _of(what: str, name: str, *, quote: bool = False) -> str:
    found = f"__{what}_{name}"
    return quoted([found])[0] if quote else found


def _wide(kind: DataType) -> str:
    """Return the type in which no sum of a realistic size overflows."""
    if isinstance(kind, IntegralType):
        return "decimal(38,0)"
    return f"decimal(38,{kind.scale})" if isinstance(kind, DecimalType) else "double"


def _sums(name: str, kind: DataType) -> tuple[Column, Column]:
    column = quoted([name])[0]
    exact = sf.try_sum(sf.col(column).cast(_wide(kind))).alias(_of("sum", name))
    return exact, sf.sum(sf.col(column).cast("double")).alias(_of("size", name))


def _limit(name: str, kind: DataType) -> Column:
    """Return the limit that the new sum exceeds, or null."""
    exact, size, old = (sf.col(_of(what, name, quote=True)) for what in ("sum", "size", "old"))
    nothing = sf.lit(0).cast(_wide(kind))
    total = sf.try_add(exact, sf.coalesce(old.cast(_wide(kind)), nothing))
    finite = ~sf.isnan(total) & (sf.abs(total) < float("inf")) if is_floating(kind) else None
    fits = total.try_cast(kind).isNotNull() if finite is None else finite
    least, most = map(sf.expr, limits(kind))
    up = size + sf.coalesce(old.cast("double"), sf.lit(0.0)) >= 0
    over = size.isNotNull() & ~sf.coalesce(fits, sf.lit(False))
    return sf.when(over, sf.when(up, most).otherwise(least)).alias(_of("limit", name))


def warn(gold: Gold, path: str, over: DataFrame, schema: StructType) -> None:
    """Log the table, the columns and the keys of an overflow, and the remedy."""
    found = over.limit(_KEYS_SHOWN + 1).collect()
    for row in found[:_KEYS_SHOWN]:
        key = ", ".join(f"{name}={row[name]!r}" for name in gold.keys)
        for name in gold.columns_by("add"):
            if row[_of("limit", name)] is not None:
                logger.warning(
                    "the gold table %r: the sum of %r for the key %s no longer fits %s: %s. "
                    "A wider type, such as DECIMAL(38,0), and `rebuild %s` give the whole sum",
                    gold.name,
                    name,
                    key,
                    schema[name].dataType.simpleString().upper(),
                    f"its rows go to {path}{APART}, and its row stays as it was"
                    if gold.overflow == "apart"
                    else f"it stays at {row[_of('limit', name)]}",
                    gold.name,
                )
    if len(found) > _KEYS_SHOWN:
        logger.warning("the gold table %r has more such keys: %d in all", gold.name, over.count())
