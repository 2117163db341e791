"""The Delta tables: their locations, and the operations on each of them.

    bronze             every record of the topic, unchanged, once per (partition, offset)
    silver             one typed row per occurrence: the first if an occurrence is written twice
    quarantine         every unreadable record, with the reason
    …                  gold: the tables that the pipeline declares

All tables are created, empty, before the first query starts. `schemas` determines their columns.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.delta_log import LOG_RETENTION, DeltaLog
from kstorm_pipeline.pipeline import APART
from kstorm_pipeline.storage import delete, exists, list_names
from kstorm_pipeline.table_names import LOG, arrange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BRONZE = """
    key BINARY,
    value BINARY COMMENT 'the value of the record, unchanged',
    topic STRING, partition INT, offset BIGINT,
    timestamp TIMESTAMP COMMENT 'the Kafka timestamp; in bronze it may be after the year 9999, which Python cannot read',
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""
QUARANTINE = f"{BRONZE}, reason STRING COMMENT 'why the record cannot be read'"
PARTITIONED_BY = {"silver": "source_bucket"}
"""The partition column of a table's files."""

_FILES = "delta.deletedFileRetentionDuration"


def kept(name: str) -> dict[str, str]:
    """Return the properties for the retention of files and log entries that a table no longer uses.

    Readers may still need them. Existing tables keep their own properties. Bronze's files stay
    longer, because `refine` may still have to read old ones.
    """
    return {
        _FILES: "interval 7 days" if name == "bronze" else "interval 1 day",
        LOG_RETENTION: "interval 7 days",
    }


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables below one root: a directory, or a URL that Spark's file systems support."""

    root: str

    def path(self, name: str) -> str:
        """Return the table's location."""
        return f"{self.root.rstrip('/')}/{name}"

    def beside(self) -> Tables:
        """Return the location where tables are built before they replace others."""
        return Tables(self.path("_rebuild"))

    def drop(self, spark: SparkSession, name: str) -> None:
        """Delete the table's directory."""
        delete(spark, self.path(name))

    def exists(self, spark: SparkSession, name: str) -> bool:
        return bool(DeltaTable.isDeltaTable(spark, self.path(name)))

    def names(self, spark: SparkSession) -> list[str]:
        """Return the existing tables: the pipeline's own first, then gold."""
        names = [
            name
            for name in list_names(spark, self.root)
            if exists(spark, f"{self.path(name)}/{LOG}")
        ]
        return arrange(names)

    def create(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Create the missing tables with these columns and, by table, these properties."""
        for name, schema in schemas.items():
            if not self.exists(spark, name):
                builder = (
                    DeltaTable.createIfNotExists(spark).location(self.path(name)).addColumns(schema)
                )
                for key, value in {**kept(name), **(properties or {}).get(name, {})}.items():
                    builder = builder.property(key, value)
                if name in PARTITIONED_BY:
                    builder = builder.partitionedBy(PARTITIONED_BY[name])
                builder.execute()
                self.drop(spark, name + APART)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """Return the table's present content."""
        return spark.read.format("delta").load(self.path(name))

    def append(self, name: str, rows: DataFrame, number: int) -> None:
        """Append the rows of the running query's batch `number`. A repeated batch adds nothing."""
        query_id = query_id_of(rows.sparkSession)
        columns = self.read(rows.sparkSession, name).columns
        writer = rows.select(*quoted(columns)).write.format("delta").mode("append")
        writer.option("txnAppId", query_id).option("txnVersion", number).save(self.path(name))

    def properties(self, spark: SparkSession, name: str) -> dict[str, str]:
        """Return the table's properties, including Delta's."""
        return DeltaLog(spark, self.path(name)).properties

    def set_properties(self, spark: SparkSession, name: str, properties: dict[str, str]) -> None:
        """Add or change properties of the table."""
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self.sql_name(name)} SET TBLPROPERTIES ({pairs})")

    def sql_name(self, name: str) -> str:
        path = self.path(name).replace("`", "``")
        return f"delta.`{path}`"

    def count(self, spark: SparkSession, name: str) -> int:
        """Return the number of rows, which Delta's statistics provide without reading data."""
        return self.read(spark, name).count()

    def is_empty(self, spark: SparkSession, name: str) -> bool:
        return self.read(spark, name).isEmpty()


@contextmanager
def once(spark: SparkSession, query: str, number: int) -> Iterator[None]:
    """Make commits of this session within the block carry the query's batch.

    Delta silently refuses a commit if the table already has that batch.
    """
    spark.conf.set("spark.databricks.delta.write.txnAppId", query)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
    try:
        yield
    finally:
        spark.conf.unset("spark.databricks.delta.write.txnAppId")
        spark.conf.unset("spark.databricks.delta.write.txnVersion")


def query_id_of(spark: SparkSession) -> str:
    """Return the running query's id. It survives restarts, but not the loss of the checkpoint."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "this runs inside a streaming query"
    return query_id
