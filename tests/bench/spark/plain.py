"""A minimal PySpark job on a topic: Kafka, `from_json`, append to one Delta table, and exit.

It keeps no raw copy, has no quarantine and no gold tables, and drops no replays. It runs as a
separate process with the broker, the topic, the table's path and the jars as arguments.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm.dev.java import SHORT_RUN_OPTIONS
from tests.bench.spark.shared_settings import COLUMNS, CORES, SHUFFLE_PARTITIONS

_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.databricks.delta.snapshotPartitions": str(SHUFFLE_PARTITIONS),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_RUN_OPTIONS,
    "spark.ui.enabled": "false",
}


def main(bootstrap: str, topic: str, table: str, jars: str) -> None:
    builder = (
        SparkSession.builder.appName("plain").master(f"local[{CORES}]").config("spark.jars", jars)
    )
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    records = spark.readStream.format("kafka").options(**options).load()
    found = sf.from_json(sf.col("value").cast("string"), COLUMNS).alias("record")
    typed = records.select(found, "partition", "offset", "timestamp").select(
        "record.*", "partition", "offset", "timestamp"
    )
    writer = (
        typed.writeStream.format("delta")
        .option("checkpointLocation", f"{table}/_checkpoint")
        .trigger(availableNow=True)
    )
    writer.start(table).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
