"""The Delta tables: where they lie, and what is done with any of them.

    bronze             every record of the topic, as it came, once per (partition, offset)
    silver             one typed row per occurrence; of an occurrence written twice the first stays
    quarantine         every record that cannot be read, with the reason
    …                  gold: the tables that the pipeline declares

They are created together, empty, before the first query starts, so a reader finds all of them or none.
`schemas` says what their columns are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BRONZE = """
    key BINARY,
    value BINARY COMMENT 'the value of the record, untouched',
    topic STRING, partition INT, offset BIGINT,
    timestamp TIMESTAMP COMMENT 'the Kafka timestamp; in bronze it may be after the year 9999, which Python cannot read',
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""
QUARANTINE = f"{BRONZE}, reason STRING COMMENT 'why the record cannot be read'"
OWN = ("bronze", "silver", "quarantine")
"""The tables that there always are."""
PARTITIONED_BY = {"silver": "source_bucket"}
"""The column by which a table's files are apart."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables below one root: a directory, or a URL that Spark's file systems know."""

    root: str

    def path(self, name: str) -> str:
        """Where the table `name` lies."""
        return f"{self.root.rstrip('/')}/{name}"

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has been created."""
        return bool(DeltaTable.isDeltaTable(spark, self.path(name)))

    def names(self, spark: SparkSession) -> list[str]:
        """The tables that there are: ours first, gold after them."""
        jvm = spark._jvm
        assert jvm is not None, "there is a Spark"
        root = jvm.org.apache.hadoop.fs.Path(self.root)
        files = root.getFileSystem(spark._jsc.hadoopConfiguration())
        try:
            found = [each.getPath() for each in files.listStatus(root)]
        except Py4JJavaError:  # there is no such place
            return []
        logs = {path.getName(): jvm.org.apache.hadoop.fs.Path(path, "_delta_log") for path in found}
        names = [name for name, log in logs.items() if files.exists(log)]
        return [name for name in OWN if name in names] + sorted(set(names) - set(OWN))

    def create(self, spark: SparkSession, schemas: Mapping[str, StructType]) -> None:
        """Create the tables that are missing, with these columns."""
        for name, schema in schemas.items():
            if not self.exists(spark, name):
                builder = DeltaTable.createIfNotExists(spark).location(self.path(name)).addColumns(schema)
                if name != "bronze":  # see `housekeeping`
                    builder = builder.property("delta.deletedFileRetentionDuration", "interval 1 day")
                if name in PARTITIONED_BY:
                    builder = builder.partitionedBy(PARTITIONED_BY[name])
                builder.execute()

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The table's present content."""
        return spark.read.format("delta").load(self.path(name))

    def append(self, name: str, rows: DataFrame, number: int) -> None:
        """Append what the running query's batch `number` adds; a second run of the batch adds nothing."""
        query_id = query_id_of(rows.sparkSession)
        columns = self.read(rows.sparkSession, name).columns
        writer = rows.select(*columns).write.format("delta").mode("append")
        writer.option("txnAppId", query_id).option("txnVersion", number).save(self.path(name))

    def properties(self, spark: SparkSession, name: str) -> dict[str, str]:
        """The table's properties, Delta's and others."""
        found = DeltaTable.forPath(spark, self.path(name)).detail().first()
        assert found is not None, "a table has details"
        return dict(found["properties"])

    def set_properties(self, spark: SparkSession, name: str, properties: dict[str, str]) -> None:
        """Add properties to the table, or change them."""
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self.sql_name(name)} SET TBLPROPERTIES ({pairs})")

    def sql_name(self, name: str) -> str:
        """The table's name in SQL."""
        path = self.path(name).replace("`", "``")
        return f"delta.`{path}`"

    def count(self, spark: SparkSession, name: str) -> int:
        """The number of rows; Delta's statistics know it without reading data."""
        return self.read(spark, name).count()

    def is_empty(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has no rows."""
        return self.read(spark, name).isEmpty()


def query_id_of(spark: SparkSession) -> str:
    """The id of the query whose batch this is: a restarted query keeps it, one with a new checkpoint has another."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "this runs inside a streaming query"
    return query_id
