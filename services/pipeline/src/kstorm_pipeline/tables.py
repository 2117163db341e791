"""The five Delta tables: where they lie and what their columns mean.

    bronze             every record of the topic, as it came, once per (partition, offset)
    silver             one typed row per word occurrence (`id`); of an occurrence written twice the first stays
    quarantine         every record that does not fit the schema, with the reason
    word_counts        gold: one row per word
    counts_per_minute  gold: one row per minute and word

They are created together, empty, before the first query starts, so a reader finds all of them or none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from delta.tables import DeltaTable
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kstorm_pipeline.records import source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_RECORD = """
    key BINARY COMMENT 'the word, UTF-8',
    value BINARY COMMENT 'the JSON of the record, untouched',
    topic STRING, partition INT, offset BIGINT,
    timestamp TIMESTAMP COMMENT 'the Kafka timestamp; in bronze it may be after the year 9999, which Python cannot read',
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""

COLUMNS = {
    "bronze": _RECORD,
    "silver": """
        word STRING,
        count BIGINT COMMENT 'the count the topology had reached; a replay is counted again, so it may exceed the truth',
        id STRING COMMENT 'names the occurrence: <source topic>-<partition>-<offset>-<position of the word>, by headers or value',
        emitted_at TIMESTAMP COMMENT 'when the topology emitted the count',
        event_time TIMESTAMP COMMENT 'the Kafka timestamp',
        partition INT, offset BIGINT,
        source_topic STRING COMMENT 'the source topic inside id, null if id has another form',
        source_partition INT COMMENT 'the source partition inside id',
        source_offset BIGINT COMMENT 'the source offset inside id',
        source_bucket INT COMMENT 'made of source topic and partition; files hold one bucket each, so look-ups skip most of them'
    """,
    "quarantine": f"{_RECORD}, reason STRING COMMENT 'what does not fit the schema'",
    "word_counts": """
        word STRING,
        count BIGINT COMMENT 'the latest count the topology wrote: at least once',
        occurrences BIGINT COMMENT 'the distinct ids of the word in silver: exact',
        partition INT COMMENT 'where the latest count was read',
        offset BIGINT,
        event_time TIMESTAMP
    """,
    "counts_per_minute": """
        window_start TIMESTAMP COMMENT 'inclusive',
        window_end TIMESTAMP COMMENT 'exclusive',
        word STRING,
        occurrences BIGINT COMMENT 'the distinct ids of the word whose first record has its Kafka timestamp in the window'
    """,
}
"""The tables by name, each with its columns as SQL."""

PARTITIONED_BY = {"silver": "source_bucket"}
"""The column by which a table's files are apart."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables below one root: a directory, or a URL that Spark's file systems know."""

    root: str

    def path(self, name: str) -> str:
        """Where the table `name` (a key of `COLUMNS`) lies."""
        return f"{self.root.rstrip('/')}/{name}"

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has been created."""
        return bool(DeltaTable.isDeltaTable(spark, self.path(name)))

    def create(self, spark: SparkSession) -> None:
        """Create the tables that are missing; bring silver to its present form."""
        for name, columns in COLUMNS.items():
            if not self.exists(spark, name):
                builder = DeltaTable.createIfNotExists(spark).location(self.path(name))
                builder = builder.addColumns(StructType.fromDDL(columns))
                if name != "bronze":  # see `housekeeping`
                    builder = builder.property("delta.deletedFileRetentionDuration", "interval 1 day")
                if name in PARTITIONED_BY:
                    builder = builder.partitionedBy(PARTITIONED_BY[name])
                builder.execute()
        self._renew_silver(spark)

    def _renew_silver(self, spark: SparkSession) -> None:
        """Rewrite a silver that an earlier version made: it told the source's offset alone. One commit, all or nothing."""
        silver = self.read(spark, "silver")
        schema = cast("StructType", StructType.fromDDL(COLUMNS["silver"]))
        if set(schema.names) <= set(silver.columns):
            return
        logger.info("rewriting %s, once, into the form that this version reads", self.path("silver"))
        columns = [sf.col(each.name).alias(each.name, metadata=each.metadata) for each in schema]
        rows = silver.withColumns(source_of("id")).select(*columns).repartition(PARTITIONED_BY["silver"])
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.partitionBy(PARTITIONED_BY["silver"]).save(self.path("silver"))

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
        path = self.path(name).replace("`", "``")
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({pairs})")

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
