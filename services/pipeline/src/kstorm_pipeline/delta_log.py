"""Reads a Delta table's log: its files, its properties, and the last batch of each query.

Delta's command for this counts files first and doesn't report the batches, so this module uses
Delta's own classes.
"""

from __future__ import annotations

import json
import time
from math import ceil
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_RETENTION: Final = "delta.logRetentionDuration"


def rows_in(spark: SparkSession, path: str) -> int:
    """Return the number of rows of a table, if possible from Delta's statistics."""
    files = DeltaLog(spark, path).noted_files()
    noted = None if files is None else rows_of(files)
    return spark.read.format("delta").load(path).count() if noted is None else noted


def rows_of(files: list[dict[str, Any]]) -> int | None:
    """Return the number of rows in `noted_files`, or None if a file has no statistics."""
    noted = [json.loads(each.get("stats") or "{}").get("numRecords") for each in files]
    deleted = (
        each["deletionVector"]["cardinality"] for each in files if each.get("deletionVector")
    )
    return None if None in noted else sum(noted) - sum(deleted)


class DeltaLog:
    """A snapshot of a table's log."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._jvm = cast("Any", spark._jvm)
        self._class = self._jvm.org.apache.spark.sql.delta.DeltaLog
        self._snapshot = self._class.forTableWithSnapshot(spark._jsparkSession, path)._2()

    @property
    def version(self) -> int:
        """The number of the last commit."""
        return int(self._snapshot.version())

    @property
    def files(self) -> int:
        """The number of files in the table."""
        return int(self._snapshot.numOfFiles())

    def noted_files(self) -> list[dict[str, Any]] | None:
        """Return the log's entries of files, or None if Delta does not have them in memory.

        It has them for tables with few files.
        """
        noted = self._snapshot.checksumOpt()
        files = noted.get().allFiles() if noted.isDefined() else noted
        return (
            [json.loads(each.json())["add"] for each in self._as_java(files.get())]
            if files.isDefined()
            else None
        )

    def files_as_rows(self) -> DataFrame:
        """Return a row per file: `path`, `partitionValues`, `stats` as JSON and other columns."""
        return DataFrame(self._snapshot.allFiles().toDF(), self._spark)

    @property
    def bytes(self) -> int:
        """The total size of these files."""
        return int(self._snapshot.sizeInBytes())

    @property
    def file_retention(self) -> float:
        """The number of seconds for which a file that the table no longer uses is kept."""
        return int(self._class.tombstoneRetentionMillis(self._snapshot.metadata())) / 1000

    @property
    def properties(self) -> dict[str, str]:
        """All properties of the table, including Delta's."""
        found = self._snapshot.metadata().configuration()
        return dict(self._as_java(found))

    def properties_for_replacing(self) -> dict[str, str]:
        """Return the properties with which the table can be replaced.

        Delta replaces a table only if it keeps log entries at least as long as old files, which it
        does not require when the properties are set. So the time for log entries may be longer.
        """
        entries = self._snapshot.deltaLog().deltaRetentionMillis(self._snapshot.metadata()) / 1000
        if entries >= self.file_retention:
            return self.properties
        return self.properties | {LOG_RETENTION: f"interval {ceil(self.file_retention)} seconds"}

    @property
    def features(self) -> set[str]:
        """The names of the features that Delta requires a reader or writer to support."""
        found = self._snapshot.protocol().implicitlyAndExplicitlySupportedFeatures()
        return {str(each.name()) for each in self._as_java(found)}

    def property(self, name: str) -> str | None:
        found = self._snapshot.metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None

    def last_batch(self, query: str) -> int | None:
        """Return the number of a query's last batch in the table."""
        found = self._snapshot.transactions().get(query)
        return int(found.get()) if found.isDefined() else None

    def append(self, files: list[str], query: str, number: int) -> bool:
        """Add files in the table's folder to the table, in one commit that carries a query's batch.

        Spark's writer does the same. `files` are `add` actions in the log's format. Returns False
        if the table already has the batch. If this raises, the commit may still have been written.
        """
        delta = self._jvm.org.apache.spark.sql.delta
        transaction = self._snapshot.deltaLog().startTransaction()
        if transaction.txnVersion(query) >= number:
            return False
        from_json = getattr(getattr(delta.actions, "Action$"), "MODULE$").fromJson
        batch = {"appId": query, "version": number, "lastUpdated": int(time.time() * 1000)}
        actions = self._jvm.java.util.ArrayList()
        for each in [json.dumps({"txn": batch}), *files]:
            actions.add(from_json(each))
        nothing = self._jvm.scala.Option.empty()
        mode = self._jvm.org.apache.spark.sql.SaveMode.Append
        write = getattr(delta, "DeltaOperations$Write")
        # Delta adds options from release to release, all of them optional.
        options = write._java_lang_class.getConstructors()[0].getParameterCount() - 1
        transaction.registerPostCommitHook(getattr(getattr(delta.hooks, "AutoCompact$"), "MODULE$"))
        transaction.commit(
            self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(),
            write(mode, *[nothing] * options),
        )
        return True

    def _as_java(self, found: Any) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found)
