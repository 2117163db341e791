"""What a Delta table's log says beside the table's rows: its files, its properties, and the last batch that each query has written.

Delta tells some of it by a command that counts files first, and the batches not at all, so its own classes are asked.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_in(spark: SparkSession, path: str) -> int:
    """How many rows a table has, without reading them where Delta has noted it."""
    files = DeltaLog(spark, path).noted_files()
    noted = None if files is None else rows_of(files)
    return spark.read.format("delta").load(path).count() if noted is None else noted


def rows_of(files: list[dict[str, Any]]) -> int | None:
    """The rows of `noted_files`; None if Delta has not noted those of each."""
    noted = [json.loads(each.get("stats") or "{}").get("numRecords") for each in files]
    deleted = (
        each["deletionVector"]["cardinality"] for each in files if each.get("deletionVector")
    )
    return None if None in noted else sum(noted) - sum(deleted)


class DeltaLog:
    """A table's log as it is now."""

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
        """How many files the table consists of."""
        return int(self._snapshot.numOfFiles())

    def noted_files(self) -> list[dict[str, Any]] | None:
        """The table's files as the log has each, where Delta has them in memory, as of a table of few; else None."""
        noted = self._snapshot.checksumOpt()
        files = noted.get().allFiles() if noted.isDefined() else noted
        return (
            [json.loads(each.json())["add"] for each in self._as_java(files.get())]
            if files.isDefined()
            else None
        )

    def files_as_rows(self) -> DataFrame:
        """A row for each file: `path`, `partitionValues`, `stats` as JSON and others."""
        return DataFrame(self._snapshot.allFiles().toDF(), self._spark)

    @property
    def bytes(self) -> int:
        """How large these are together."""
        return int(self._snapshot.sizeInBytes())

    @property
    def file_retention(self) -> float:
        """For how many seconds a file stays that the table needs no more."""
        return int(self._class.tombstoneRetentionMillis(self._snapshot.metadata())) / 1000

    @property
    def properties(self) -> dict[str, str]:
        """All properties of the table, Delta's and others."""
        found = self._snapshot.metadata().configuration()
        return dict(self._as_java(found))

    @property
    def features(self) -> set[str]:
        """What Delta asks of who reads or writes the table, by the names of its features."""
        found = self._snapshot.protocol().implicitlyAndExplicitlySupportedFeatures()
        return {str(each.name()) for each in self._as_java(found)}

    def property(self, name: str) -> str | None:
        """A property of the table."""
        found = self._snapshot.metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that the table has."""
        found = self._snapshot.transactions().get(query)
        return int(found.get()) if found.isDefined() else None

    def append(self, files: list[str], query: str, number: int) -> bool:
        """Make files that lie in the table's folder a part of it, as Spark's writer does: in one commit with a query's batch.

        Each file is told as the log has it. False if the table has the batch. If this raises, the commit may have been written.
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
        write = getattr(delta, "DeltaOperations$Write")(mode, nothing, nothing, nothing)
        transaction.registerPostCommitHook(getattr(getattr(delta.hooks, "AutoCompact$"), "MODULE$"))
        transaction.commit(
            self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), write
        )
        return True

    def _as_java(self, found: Any) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found)
