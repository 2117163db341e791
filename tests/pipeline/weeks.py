"""Measures the log and directory of a table after weeks of batches, and after `maintain`.

    python -m tests.pipeline.weeks --days 7

A run has a batch every ten seconds. Writing 60,480 batches takes too long, so one is really
written, and the log is extended as a run would extend it. Each batch adds a commit and a file.
Fifty small files become one. There are checkpoints, and no entries older than a week.

Each file is a link to the real one. So this measures the number of files and entries, not the
reading of rows. `--maintained` simulates `maintain` once a day.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from kstorm.dev.java import spark_environment
from kstorm_pipeline.maintenance import maintain
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.left_running import fill, on_disk, seconds_to_read, totals_pipeline
from tests.spark_release import spark_jars

EVERY_SECS: Final = 10
DAY: Final = 24 * 3600
SMALL: Final = 50
"""The number of small files that Delta compacts after a commit."""
_LINKS: Final = 30_000
"""Links to one file. File systems allow at most some 65,000."""
_CHECKPOINT: Final = 20_000


class Weeks:
    """A table whose log is extended."""

    def __init__(self, spark: SparkSession, path: str, *, maintained: bool) -> None:
        self._spark, self._directory, self._maintained = spark, Path(path), maintained
        self._log = self._directory / "_delta_log"
        commits = sorted(self._log.glob("*.json"))
        self._version = int(commits[-1].stem)
        self._add = next(
            action["add"]
            for action in map(json.loads, commits[-1].read_text().splitlines())
            if "add" in action
        )
        self._real = self._directory / self._add["path"]
        self._small: list[str] = []
        self._stale: list[tuple[float, str]] = []

    def go_by(self, days: float) -> None:
        """Extend the log up to now."""
        batches = int(days * DAY / EVERY_SECS)
        began = time.time() - batches * EVERY_SECS
        for number in range(batches):
            at = began + number * EVERY_SECS
            self._commit(at, "WRITE", [self._added(number, "part", at)])
            if len(self._small) == SMALL:
                gone, self._small = self._small, []
                removed = [{"remove": {**self._removal(at), "path": path}} for path in gone]
                self._stale += [(at, path) for path in gone]
                self._commit(at, "OPTIMIZE", [*removed, self._added(number, "all", at)])
            if self._version % _CHECKPOINT < 2:
                self._tidy(at)
        self._tidy(time.time())

    def _added(self, number: int, name: str, at: float) -> dict[str, Any]:
        path = Path(self._add["path"]).with_name(f"{name}-{number:08}.snappy.parquet")
        if number % _LINKS == 0:
            self._real = self._directory / path
            self._real.write_bytes((self._directory / self._add["path"]).read_bytes())
        else:
            os.link(self._real, self._directory / path)
        self._small.append(str(path))
        return {"add": {**self._add, "path": str(path), "modificationTime": int(at * 1000)}}

    def _removal(self, at: float) -> dict[str, Any]:
        kept = {key: self._add[key] for key in ("partitionValues", "size")}
        return {
            "deletionTimestamp": int(at * 1000),
            "dataChange": False,
            "extendedFileMetadata": True,
            **kept,
        }

    def _commit(self, at: float, operation: str, actions: list[dict[str, Any]]) -> None:
        self._version += 1
        info = {
            "timestamp": int(at * 1000),
            "operation": operation,
            "operationParameters": {},
            "isBlindAppend": True,
        }
        transaction = {
            "txn": {"appId": "weeks", "version": self._version, "lastUpdated": int(at * 1000)}
        }
        file = self._log / f"{self._version:020}.json"
        file.write_text(
            "\n".join(map(json.dumps, [{"commitInfo": info}, transaction, *actions])) + "\n"
        )
        os.utime(file, (at, at))

    def _tidy(self, at: float) -> None:
        """Do what Delta does after a commit, and `maintain` once a day."""
        jvm: Any = self._spark._jvm
        found = jvm.org.apache.spark.sql.delta.DeltaLog
        found.clearCache()
        log = found.forTable(self._spark._jsparkSession, str(self._directory))
        log.checkpoint(log.unsafeVolatileSnapshot(), jvm.scala.Option.empty())
        for file in self._log.iterdir():
            old = (
                file.name[:20].isdigit()
                and int(file.name[:20]) < self._version - 7 * DAY / EVERY_SECS
            )
            if old or (file.suffix == ".parquet" and int(file.name[:20]) < self._version):
                file.unlink()
        while self._maintained and self._stale and self._stale[0][0] < at - DAY:
            (self._directory / self._stale.pop(0)[1]).unlink()


def figures(spark: SparkSession, tables: Tables) -> Iterator[str]:
    held = len(tables.read(spark, "silver").inputFiles())
    yield json.dumps(
        {
            "held": held,
            **on_disk(tables, "silver"),
            "read_s": seconds_to_read(spark, tables, "silver"),
        }
    )


def main() -> None:
    """Age a table, and print its figures before and after `maintain`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--maintained", action="store_true")
    arguments = parser.parse_args()
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
        fill(spark, tables, pipeline, range(1))
        Weeks(spark, tables.path("silver"), maintained=arguments.maintained).go_by(arguments.days)
        print("before", *figures(spark, tables), sep="\n", flush=True)
        began = time.monotonic()
        list(map(print, map(json.dumps, maintain(spark, settings, tables))))
        print(f"maintain took {time.monotonic() - began:.0f} s")
        print("after", *figures(spark, tables), sep="\n", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
