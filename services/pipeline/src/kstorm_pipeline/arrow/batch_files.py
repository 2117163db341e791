"""Finds the files that contain the rows of a batch.

A streaming batch is passed as rows only. Spark keeps the list of their files in the RDD that would
read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from py4j.java_gateway import is_instance_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCAN = "org.apache.spark.sql.execution.datasources.FileScanRDD"


def files_read_by(rows: DataFrame) -> list[str]:
    """Return the paths of the batch's files. Empty if the batch does not consist of whole files."""
    plan = rows._jdf.queryExecution().logical()
    if plan.getClass().getSimpleName() != "LogicalRDD":
        return []
    found: set[str] = set()
    pending = [plan.rdd()]
    while pending:
        rdd = pending.pop()
        sources = list(_java(rows, rdd.dependencies()))
        if is_instance_of(rows.sparkSession.sparkContext._gateway, rdd, _SCAN):
            found.update(_files(rows, rdd))
        elif not sources and rdd.getNumPartitions():
            return []
        pending.extend(each.rdd() for each in sources)
    return sorted(found)


def _files(rows: DataFrame, scan: Any) -> set[str]:
    partitions = _java(rows, scan.filePartitions())
    return {
        unquote(urlsplit(each.urlEncodedPath()).path)
        for partition in partitions
        for each in partition.files()
    }


def _java(rows: DataFrame, sequence: Any) -> Any:
    jvm: Any = rows.sparkSession._jvm
    return jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence)
