"""Reports the contents of tables as JSON."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.delta_log import DeltaLog, rows_of
from kstorm_pipeline.table_names import no_such_column, no_such_table, no_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstorm_pipeline.tables import Tables


def summary(spark: SparkSession, tables: Tables) -> dict[str, int]:
    """Return the number of rows of every table, counted only if Delta has no statistics."""
    check_there(spark, tables)
    found: dict[str, int | None] = {}
    others: dict[str, DeltaLog] = {}
    for name in tables.names(spark):
        log = DeltaLog(spark, tables.path(name))
        files = log.noted_files()
        found[name] = None if files is None else rows_of(files)
        if files is None:
            others[name] = log
    found |= _sum_up_many(others)
    return {
        name: tables.count(spark, name) if rows is None else rows for name, rows in found.items()
    }


def _sum_up_many(logs: dict[str, DeltaLog]) -> dict[str, int | None]:
    """Return the same for tables with many files, in a single job."""
    if not logs:
        return {}
    noted = sf.get_json_object("stats", "$.numRecords").cast("bigint")
    rows = noted - sf.coalesce("deletionVector.cardinality", sf.lit(0))
    files = [log.files_as_rows().select(sf.lit(name), rows) for name, log in logs.items()]
    of_table = reduce(DataFrame.union, files).toDF("name", "rows").groupBy("name")
    found = of_table.agg(sf.sum("rows"), sf.count_if(sf.col("rows").isNull())).collect()
    told = {name: None if untold else rows for name, rows, untold in found}
    return {name: told.get(name, 0) for name in logs}  # a table without files has no row


def check_there(spark: SparkSession, tables: Tables, name: str | None = None) -> None:
    """Raise SettingsError if there are no tables, or none with that name."""
    found = tables.names(spark)
    if not found:
        raise no_tables(tables.root)
    if name is not None and name not in found:
        raise no_such_table(tables.path(name), found)


def show(
    spark: SparkSession, tables: Tables, name: str, n: int, by: str | None = None
) -> Iterator[str]:
    """Return `n` rows of a table as lines of JSON, with `by` those with the greatest values."""
    rows = _read(spark, tables, name)
    if by is not None:
        if by not in rows.columns:
            raise no_such_column(name, by, rows.columns)
        others = [each.name for each in rows.schema if each.dataType.typeName() == "string"]
        rows = rows.orderBy(sf.desc(quoted([by])[0]), *quoted(others))
    return _lines(rows.limit(n))


def export(spark: SparkSession, tables: Tables, name: str, file: Path) -> None:
    """Write all rows of a table as lines of JSON."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(_lines(_read(spark, tables, name)))


def json_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _lines(rows: DataFrame) -> Iterator[str]:
    # Spark converts every column type to JSON: decimals and times unchanged, bytes as base64.
    text = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})
    return (f"{row[0]}\n" for row in rows.select(text).toLocalIterator())


def _read(spark: SparkSession, tables: Tables, name: str) -> DataFrame:
    check_there(spark, tables, name)
    return tables.read(spark, name)
