"""The five Delta tables: where they lie and what their columns mean.

    bronze             every record of the topic, as it came, once per (partition, offset)
    silver             one typed row per word occurrence (`id`); of an occurrence written twice the first stays
    quarantine         every record that does not fit the schema, with the reason
    word_counts        gold: one row per word
    counts_per_minute  gold: one row per minute and word

They are created together, empty, before the first query starts, so a reader never meets half a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORD = """
    key BINARY COMMENT 'the word, UTF-8',
    value BINARY COMMENT 'the JSON of the record, untouched',
    topic STRING, partition INT, offset BIGINT,
    timestamp TIMESTAMP COMMENT 'the Kafka timestamp',
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
        source_offset BIGINT COMMENT 'the source offset inside id, null if id has another form; lets look-ups skip files'
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
        """Create the tables that are missing; leave the others alone."""
        for name, columns in COLUMNS.items():
            if not self.exists(spark, name):
                builder = DeltaTable.createIfNotExists(spark).location(self.path(name))
                builder.addColumns(StructType.fromDDL(columns)).execute()

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The table's present content."""
        return spark.read.format("delta").load(self.path(name))

    def count(self, spark: SparkSession, name: str) -> int:
        """The number of rows; Delta's statistics know it without reading data."""
        return self.read(spark, name).count()

    def is_empty(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has no rows."""
        return self.read(spark, name).isEmpty()
