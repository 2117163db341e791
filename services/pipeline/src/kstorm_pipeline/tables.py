"""The Delta tables: where they lie, and what is done with any of them.

    bronze             every record of the topic, as it came, once per (partition, offset)
    silver             one typed row per occurrence; of an occurrence written twice the first stays
    quarantine         every record that cannot be read, with the reason
    …                  gold: the tables that the pipeline declares

They are created together, empty, before the first query starts, so a reader finds all of them or none.
`schemas` says what their columns are.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.places import delete, is_there, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

_FILES = "delta.deletedFileRetentionDuration"
_LOG = "delta.logRetentionDuration"


def kept(name: str) -> dict[str, str]:
    """How long a table keeps what it needs no more, for those who are reading it: files, and entries of its log.

    What somebody else has set for a table stays. `refine` may have old files of bronze still to read, so these stay for longer.
    """
    return {
        _FILES: "interval 7 days" if name == "bronze" else "interval 1 day",
        _LOG: "interval 7 days",
    }


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables below one root: a directory, or a URL that Spark's file systems know."""

    root: str

    def path(self, name: str) -> str:
        """Where the table `name` lies."""
        return f"{self.root.rstrip('/')}/{name}"

    def beside(self) -> Tables:
        """Where tables are built before they are put in the place of others."""
        return Tables(self.path("_rebuild"))

    def drop(self, spark: SparkSession, name: str) -> None:
        """Delete the table's directory."""
        delete(spark, self.path(name))

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has been created."""
        return bool(DeltaTable.isDeltaTable(spark, self.path(name)))

    def names(self, spark: SparkSession) -> list[str]:
        """The tables that there are: ours first, gold after them."""
        names = [
            name
            for name in names_in(spark, self.root)
            if is_there(spark, f"{self.path(name)}/_delta_log")
        ]
        return [name for name in OWN if name in names] + sorted(set(names) - set(OWN))

    def create(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Create the tables that are missing, with these columns and, by name, these properties."""
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
        return DeltaLog(spark, self.path(name)).properties

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


@contextmanager
def once(spark: SparkSession, query: str, number: int) -> Iterator[None]:
    """Within it a commit of this session carries the query's batch, and is refused, silently, if its table has that batch."""
    spark.conf.set("spark.databricks.delta.write.txnAppId", query)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
    try:
        yield
    finally:
        spark.conf.unset("spark.databricks.delta.write.txnAppId")
        spark.conf.unset("spark.databricks.delta.write.txnVersion")


def query_id_of(spark: SparkSession) -> str:
    """The id of the query whose batch this is: a restarted query keeps it, one with a new checkpoint has another."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "this runs inside a streaming query"
    return query_id
