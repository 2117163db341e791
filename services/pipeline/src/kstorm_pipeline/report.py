"""What the tables say, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.tables import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstorm_pipeline.tables import Tables

_SHOWN = ("word", "count", "occurrences")


def summary(spark: SparkSession, tables: Tables) -> dict[str, int]:
    """The number of rows of every table, by its name."""
    _check_exist(spark, tables)
    return {name: tables.count(spark, name) for name in COLUMNS}


def top(spark: SparkSession, tables: Tables, n: int) -> list[dict[str, Any]]:
    """The `n` words with the most occurrences: `word`, `count` (at least once) and `occurrences` (exact)."""
    _check_exist(spark, tables)
    rows = tables.read(spark, "word_counts").select(*_SHOWN).orderBy(sf.desc("occurrences"), "word").limit(n)
    return [row.asDict() for row in rows.collect()]


def report(spark: SparkSession, tables: Tables, n: int) -> dict[str, Any]:
    """Row counts (`gold_rows` counts the words) and the `n` top words, as `run --report` writes them."""
    rows = summary(spark, tables)
    return {
        "bronze": rows["bronze"],
        "silver": rows["silver"],
        "quarantine": rows["quarantine"],
        "gold_rows": rows["word_counts"],
        "counts_per_minute_rows": rows["counts_per_minute"],
        "top": top(spark, tables, n),
    }


def export_counts(spark: SparkSession, tables: Tables, file: Path) -> None:
    """Write all of `word_counts` as JSON lines like those of `top`, ordered by word."""
    rows = tables.read(spark, "word_counts").select(*_SHOWN).orderBy("word")
    with file.open("w", encoding="utf-8") as out:
        for row in rows.toLocalIterator():
            out.write(json_line(row.asDict()))


def json_line(value: dict[str, Any]) -> str:
    """One line of JSON, with its line end."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def _check_exist(spark: SparkSession, tables: Tables) -> None:
    for name in COLUMNS:
        if not tables.exists(spark, name):
            raise PipelineError(f"there is no table {tables.path(name)}: run the pipeline first, or correct --tables")
