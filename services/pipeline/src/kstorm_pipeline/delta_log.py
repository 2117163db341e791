"""What a Delta table's log says beside the table's rows: its properties, and the last batch that each query has written.

Delta tells the first by a command that counts files as well, and the second not at all, so its own classes are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaLog:
    """A table's log as it is now."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        log: Any = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        self._snapshot = log.forTableWithSnapshot(spark._jsparkSession, path)._2()

    def property(self, name: str) -> str | None:
        """A property of the table."""
        found = self._snapshot.metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that the table has."""
        found = self._snapshot.transactions().get(query)
        return int(found.get()) if found.isDefined() else None
