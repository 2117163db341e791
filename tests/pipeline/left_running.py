"""Measures the files of many small batches and the time to read them, before and after `maintain`.

    python -m tests.pipeline.left_running --batches 600

Batches go through `refine` one after another, without Kafka and without waiting. The retention of old
files is zero here, so `maintain` deletes immediately what it would otherwise delete a day later.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm.dev.java import spark_environment
from kstorm_pipeline import Pipeline, json_records
from kstorm_pipeline.high_water_marks import HighWaterMarks
from kstorm_pipeline.maintenance import maintain
from kstorm_pipeline.refine import refine
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.topic import as_of_stream, bronze
from tests.spark_release import spark_jars

RECORDS = 100
"""In each batch: ten a second."""
CUSTOMERS = 1000


def totals_pipeline() -> Pipeline:
    """Return a pipeline with one table of customers. Each batch changes some of them."""
    pipeline = Pipeline(records=json_records("customer BIGINT, amount DECIMAL(18,2)"))

    @pipeline.gold("totals", keys=["customer"], add=["amount"])
    def totals(fresh: DataFrame) -> DataFrame:
        return fresh

    return pipeline


def fill(spark: SparkSession, tables: Tables, pipeline: Pipeline, batches: Iterable[int]) -> None:
    """Write the batches, each to bronze, silver and gold."""
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "left-running")
    marks = HighWaterMarks(tables)
    for number in batches:
        first = number * RECORDS
        values = [
            json.dumps({"customer": n * 7 % CUSTOMERS, "amount": "1.50"}).encode()
            for n in range(first, first + RECORDS)
        ]
        rows = as_of_stream(
            bronze(spark, values).withColumn("offset", sf.col("offset") + first).coalesce(1)
        )
        tables.append("bronze", rows, number)
        refine(tables, pipeline, rows, number, marks)


def on_disk(tables: Tables, name: str) -> dict[str, int]:
    """Return the files below a table's directory."""
    files = [
        file
        for file in Path(tables.path(name)).rglob("*")
        if file.is_file() and not file.name.startswith(".")
    ]
    log = [file for file in files if "_delta_log" in file.parts]
    return {
        "data": len(files) - len(log),
        "log": len(log),
        "bytes": sum(file.stat().st_size for file in files),
    }


def seconds_to_read(spark: SparkSession, tables: Tables, name: str) -> float:
    """Return the time to open a table for the first time and read all of it. The better of two."""
    taken = []
    for _ in range(2):
        assert spark._jvm is not None
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        began = time.monotonic()
        tables.read(spark, name).select(sf.max(sf.hash("*"))).collect()
        taken.append(time.monotonic() - began)
    return round(min(taken), 2)


def figures(spark: SparkSession, tables: Tables) -> Iterator[str]:
    """Return one line per table."""
    for name in ("bronze", "silver", "totals"):
        held = len(tables.read(spark, name).inputFiles())
        yield json.dumps(
            {
                "table": name,
                "held": held,
                **on_disk(tables, name),
                "read_s": seconds_to_read(spark, tables, name),
            }
        )


def main() -> None:
    """Fill tables, and print their figures before and after `maintain`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batches", type=int, default=600)
    batches = parser.parse_args().batches
    os.environ.update(spark_environment())
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            tables=directory,
            jars=tuple(map(str, spark_jars())),
            trigger="continuous",
            shuffle_partitions=2,
        )
        spark, tables, pipeline = start_spark(settings), Tables(directory), totals_pipeline()
        spark.sparkContext.setLogLevel("ERROR")
        tables.create(spark, find_schemas(spark, pipeline))
        for name in ("bronze", "silver", "totals"):
            tables.set_properties(
                spark, name, {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
            )
        began = time.monotonic()
        fill(spark, tables, pipeline, range(batches))
        print(
            json.dumps({"batches": batches, "seconds": round(time.monotonic() - began)}), flush=True
        )
        print("before", *figures(spark, tables), sep="\n", flush=True)
        list(map(print, map(json.dumps, maintain(spark, settings, tables))))
        print("after", *figures(spark, tables), sep="\n", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
