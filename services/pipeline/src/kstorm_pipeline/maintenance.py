"""Maintains tables that are written continuously. Safe to run next to a running pipeline.

- **Compaction.** Each batch writes a few small files. Files smaller than 96 MB are combined into
  files of up to 128 MB. A merge that conflicts with it is repeated (`gold`). Appends don't
  conflict.
- **Old files.** Files that a merge or a compaction has replaced stay for readers for as long as the
  table's property `delta.deletedFileRetentionDuration` specifies. Then they are deleted. Files of
  bronze are deleted only once `refine` has read them, because it reads the files that each commit
  added, in order.
- **The log.** Delta itself deletes entries older than the property `delta.logRetentionDuration`
  when it writes a checkpoint of the table. Spark keeps the last hundred batches of each query's
  checkpoint.
- **Bronze.** If a retention is set, records with an older Kafka timestamp are deleted, as far as
  `refine` has read them.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from kstorm_pipeline.checkpoints import first_unread
from kstorm_pipeline.conflicts import CONFLICTS
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.replay_lookup import any_of
from kstorm_pipeline.report import check_there
from kstorm_pipeline.storage import modification_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_SMALL, _LARGE = 96 << 20, 128 << 20
"""Bytes: smaller files are combined into files of up to the second size."""
_MOST_UNREAD = 1000
"""If `refine` lags by more commits of bronze, their operations are not examined."""


def maintain(
    spark: SparkSession, settings: Settings, tables: Tables
) -> Iterator[dict[str, object]]:
    """Maintain each table in turn, and yield a report for each.

    A failure at one table is logged as a warning, and the others are still maintained. Raises
    PipelineError if there are no tables.
    """
    check_there(spark, tables)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.optimize.minFileSize", str(_SMALL))
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_LARGE))
    commits = may_commit(session, tables)
    read = read_up_to(session, settings, tables)
    all_read = read >= DeltaLog(session, tables.path("bronze")).version
    for name in tables.names(spark):
        started, dropped = time.monotonic(), 0
        before = DeltaLog(session, tables.path(name)).files
        try:
            if commits:
                if name == "bronze" and settings.bronze_days:
                    dropped = drop_old(session, tables, read, settings.bronze_days)
                compact(session, tables, name)
            if name != "bronze" or all_read or _has_read_old_files(session, tables, read):
                DeltaTable.forPath(session, tables.path(name)).vacuum()
        except (PySparkException, Py4JError) as error:
            again = (
                "another process has committed"
                if isinstance(error, CONFLICTS)
                else str(error).partition("\n")[0]
            )
            logger.warning("maintain: %s is skipped until the next time: %s", name, again)
        seconds = round(time.monotonic() - started, 1)
        after = DeltaLog(session, tables.path(name)).files
        yield {
            "table": name,
            "files_before": before,
            "files": after,
            "rows_dropped": dropped,
            "seconds": seconds,
        }


def compact(spark: SparkSession, tables: Tables, name: str) -> None:
    """Combine a table's small files into larger ones. Its rows stay the same."""
    DeltaTable.forPath(spark, tables.path(name)).optimize().executeCompaction()


def drop_old(spark: SparkSession, tables: Tables, read: int, days: float) -> int:
    """Delete bronze rows older than `days` that version `read` includes. Return their number."""
    if read < 0:
        return 0
    old = sf.col("timestamp") < sf.lit(datetime.now(UTC) - timedelta(days=days))
    rows = spark.read.format("delta").option("versionAsOf", read).load(tables.path("bronze"))
    found = rows.where(old).groupBy("partition").agg(sf.max("offset"), sf.count("*")).collect()
    if not found:
        return 0
    # Bronze receives a partition's records in order. So all records before a read one are read.
    done = any_of((sf.col("partition") == row[0]) & (sf.col("offset") <= row[1]) for row in found)
    DeltaTable.forPath(spark, tables.path("bronze")).delete(old & done)
    return sum(row[2] for row in found)


def read_up_to(spark: SparkSession, settings: Settings, tables: Tables) -> int:
    """Return the last version of bronze that `refine` has certainly read fully, or -1.

    That is the present version if nothing is left to read.
    """
    unread, last = first_unread(spark, settings), DeltaLog(spark, tables.path("bronze")).version
    left = last + 1 - unread
    if not unread or left > _MOST_UNREAD:
        return unread - 1
    if left > 0:
        commits = (
            DeltaTable.forPath(spark, tables.path("bronze"))
            .history(left)
            .select("operation")
            .collect()
        )
        if any(row.operation == "WRITE" for row in commits):
            return unread - 1
    return last


def _has_read_old_files(spark: SparkSession, tables: Tables, read: int) -> bool:
    """Return True if `refine` is past the commits that replaced the files VACUUM would delete."""
    path = tables.path("bronze")
    log = DeltaLog(spark, path)
    written = modification_time(spark, f"{path}/_delta_log/{read + 1:020}.json")
    if read >= log.version or (written is not None and time.time() - written < log.file_retention):
        return True
    logger.warning(
        "maintain: old files of bronze stay, because `refine` has not read all rows that bronze had "
        "%d s ago",
        log.file_retention,
    )
    return False


def may_commit(spark: SparkSession, tables: Tables) -> bool:
    """Return True if two processes can commit to one table in this storage.

    On S3, Delta needs a table in DynamoDB for that.
    """
    scheme = tables.root.partition(":")[0]
    setting = f"spark.delta.logStore.{scheme}.impl"
    if scheme not in ("s3", "s3a", "s3n") or spark.conf.get(setting, ""):
        return True
    logger.warning(
        "maintain: only old files are deleted, because on S3 a commit of this process and one of "
        "the pipeline could overwrite each other. Set %s for both (Delta's S3DynamoDBLogStore)",
        setting,
    )
    return False
