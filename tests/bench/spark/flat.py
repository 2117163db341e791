"""The cost of a batch on empty and on full tables, in one warm Spark session.

Sources are even or skewed, and some batches contain replays. Tables are filled with batches of the
measured size, as in a real run. Then the same kinds of batches are written to the full tables and
to new ones, in turn. The cost of a batch is that of its append to bronze and its `refine`. CPU time
is that of the whole JVM.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from examples.wordcount.tables import pipeline
from kstorm.dev.jars import spark_jars
from kstorm.dev.java import spark_environment
from kstorm.dev.paths import run_directory
from kstorm.errors import LocalError
from kstorm_pipeline.high_water_marks import HighWaterMarks
from kstorm_pipeline.refine import refine
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.bench.progress import Progress
from tests.bench.report import machine
from tests.bench.run_parameters import PARTITIONS
from tests.bench.spark.shared_settings import CORES, SHUFFLE_PARTITIONS
from tests.pipeline.topic import as_of_stream

_WORDS: Final = 2000
_A_SECOND: Final = 1000
"""Records per second of Kafka timestamps. So a million are 17 minutes of `counts_per_minute`."""
_LATE: Final = 100
"""One of this many records is a replay, if there are any."""
_SOME_TIME_AGO: Final = 600 * _A_SECOND
"""Number of records between a message's first record and its replay."""
_WARM: Final = 3
_LEGEND: Final = """skewed: three of four messages are in one source partition
replays: 1 % of the records are of messages of 10 minutes ago (near), or of any (far)"""


@dataclass(frozen=True, slots=True)
class BatchKind:
    """A kind of batches."""

    name: str
    skewed: bool = False
    late: str = ""
    """The replayed messages: those of ten minutes `ago`, or `any`. Empty: none."""

    def partition(self, number: Column) -> Column:
        """Return the source partition of a message. With skew, three of four are in one."""
        even = (number % PARTITIONS).cast("int")
        return sf.when(number % 4 > 0, 0).otherwise(even) if self.skewed else even

    def message(self, number: Column, first: int) -> Column:
        """Return the source message of a record."""
        if not self.late:
            return number
        if self.late == "ago":
            again = sf.greatest(number - _SOME_TIME_AGO, sf.lit(0))
        else:
            again = sf.pmod(sf.xxhash64(number), sf.lit(max(first, 1)))
        return sf.when(number % _LATE == 0, again).otherwise(number)


KINDS: Final = (
    BatchKind("even"),
    BatchKind("skewed", skewed=True),
    BatchKind("replays, near", late="ago"),
    BatchKind("skewed and near", skewed=True, late="ago"),
    BatchKind("replays, far", late="any"),
)


class Filling:
    """Tables to which batch after batch is written."""

    def __init__(self, spark: SparkSession, directory: Path, size: int) -> None:
        self._spark, self._size = spark, size
        self.tables = Tables(str(directory))
        self.tables.create(spark, find_schemas(spark, pipeline))
        self._marks = HighWaterMarks(self.tables)
        self._numbers = count()

    def add(self, kind: BatchKind) -> tuple[float, float]:
        """Write one more batch, and return its seconds and CPU seconds."""
        number = next(self._numbers)
        rows = as_of_stream(_records(self._spark, kind, number * self._size, self._size))
        began, used = time.monotonic(), _cpu_seconds()
        self.tables.append("bronze", rows, number)
        done = refine(self.tables, pipeline, rows, number, self._marks)
        if done.rows["silver"] + done.replays != self._size:
            raise LocalError(
                f"batch {number} of {self._size} records gave {done.rows} and {done.replays} replays"
            )
        return time.monotonic() - began, _cpu_seconds() - used


def run_flat(rows: int, size: int, rounds: int, report: Path | None) -> int:
    """Measure, print, and return 0."""
    console = Console()
    progress = Progress(console)
    directory = run_directory()
    os.environ.update(spark_environment())
    settings = Settings(
        tables=str(directory / "full"),
        jars=tuple(map(str, spark_jars())),
        master=f"local[{CORES}]",
        shuffle_partitions=SHUFFLE_PARTITIONS,
    )
    spark = start_spark(settings)
    try:
        spark.sparkContext.setLogLevel("ERROR")
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", "flat")
        full = Filling(spark, directory / "full", size)
        growth = []
        for batch in range(-(-rows // size)):
            growth.append(full.add(KINDS[0]))
            progress.status(
                f"{(batch + 1) * size:,} of {rows:,} rows: {growth[-1][0]:.1f} s a batch"
            )
        found = {
            kind.name: [*_rounds(spark, directory, full, kind, size, rounds, progress)]
            for kind in KINDS
        }
        memory = _jvm().memory_info().rss / 2**20
    finally:
        progress.close()
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    _print(console, found, rows, size)
    console.print(f"the JVM's memory at the end: {memory:,.0f} MB", highlight=False)
    if report is not None:
        content = {
            "machine": machine(),
            "rows": rows,
            "size": size,
            "growth": growth,
            "kinds": found,
            "memory": memory,
        }
        report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def _rounds(
    spark: SparkSession,
    directory: Path,
    full: Filling,
    kind: BatchKind,
    size: int,
    rounds: int,
    progress: Progress,
) -> Iterator[dict[str, tuple[float, float]]]:
    """Yield seconds and CPU seconds of a batch on both kinds of tables, after warm-up rounds."""
    for number in range(-_WARM, rounds):
        empty = Filling(spark, directory / f"empty-{kind.name}-{number}", size)
        found = {"empty": empty.add(kind), "full": full.add(kind)}
        shutil.rmtree(empty.tables.root)
        progress.status(
            f"{kind.name}: {found['empty'][0]:.1f} s on empty tables, {found['full'][0]:.1f} s on full ones"
        )
        if number >= 0:
            yield found


def _records(spark: SparkSession, kind: BatchKind, first: int, size: int) -> DataFrame:
    """Return records of a word count in bronze's form. They are cached before the measurement."""
    number = sf.col("id")
    message = kind.message(number, first)
    record = sf.to_json(
        sf.struct(
            sf.concat(sf.lit("word"), sf.pmod(sf.xxhash64(message), sf.lit(_WORDS))).alias("word"),
            (number + 1).alias("count"),
            sf.concat_ws(
                "-", sf.lit("sentences"), kind.partition(message), message, sf.lit("0")
            ).alias("id"),
            (number + 1).alias("emitted_at"),
        )
    )
    rows = spark.range(first, first + size, 1, CORES).select(
        sf.lit(None).cast("binary").alias("key"),
        record.cast("binary").alias("value"),
        sf.lit("word-counts").alias("topic"),
        (number % PARTITIONS).cast("int").alias("partition"),
        number.alias("offset"),
        sf.timestamp_millis(number * (1000 // _A_SECOND)).alias("timestamp"),
        sf.lit(None).cast("array<struct<key string, value binary>>").alias("headers"),
    )
    return rows.localCheckpoint()


def _jvm() -> psutil.Process:
    found = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
    return found[0]


def _cpu_seconds() -> float:
    times = _jvm().cpu_times()
    return times.user + times.system


def _print(
    console: Console, found: dict[str, list[dict[str, tuple[float, float]]]], rows: int, size: int
) -> None:
    table = Table(
        title=f"a batch of {size:,} records, on empty tables and on ones with {rows:,} rows in silver; medians",
        title_justify="left",
        box=None,
    )
    for column in ("", "empty s", "full s", "×", "empty CPU", "full CPU", "×"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for name, each in found.items():
        cells = []
        for figure in (0, 1):
            empty, full = (
                median(run[which][figure] for run in each) for which in ("empty", "full")
            )
            cells += [f"{empty:.2f}", f"{full:.2f}", f"{full / empty:.2f}"]
        table.add_row(name, *cells)
    console.print(table, highlight=False)
    console.print(_LEGEND, highlight=False)
