"""A short run without Kafka, in which Java records the classes that such a run uses.

    python -m kstorm_pipeline.rehearsal JARS 'JAVA OPTIONS'

Its tables are temporary. With the option `-XX:ArchiveClassesAtExit=FILE` Java writes the classes to
a file. A later run maps the file (`-XX:SharedArchiveFile=FILE`). Without it, a third of a short
run's time is spent on loading classes from 300 jars.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import functions as sf

from kstorm_pipeline import report
from kstorm_pipeline.arrow.batches import ArrowReader
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.json_records import json_records
from kstorm_pipeline.pipeline import Pipeline
from kstorm_pipeline.refine import refine
from kstorm_pipeline.schemas import definitions, find_schemas
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import BRONZE, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOWHERE = "127.0.0.1:1"


def main(jars: str, options: str) -> None:
    """Run it, and wait until Java has exited."""
    with TemporaryDirectory() as folder:
        given = tuple(jars.split(","))
        settings = Settings(
            tables=folder,
            jars=given,
            master="local[2]",
            shuffle_partitions=2,
            driver_java_options=options,
        )
        spark = start_spark(settings)
        _rehearse(spark, settings)
        _open_kafka(spark)
        spark.stop()
        _end_java()


def _rehearse(spark: SparkSession, settings: Settings) -> None:
    """Process two batches, one with Python and one with Spark."""
    tables, pipeline = Tables(settings.tables), _pipeline()
    tables.create(spark, find_schemas(spark, pipeline), definitions(pipeline))
    arrow = ArrowReader(spark, settings, tables, pipeline)

    def write(rows: DataFrame, number: int) -> None:
        refine(tables, pipeline, rows, number, arrow=arrow if number == 0 else None)

    for begin in (0, 100):
        _records(spark, begin).write.format("delta").mode("append").save(tables.path("bronze"))
        stream = (
            spark.readStream.format("delta")
            .load(tables.path("bronze"))
            .writeStream.foreachBatch(write)
        )
        place = str(Path(settings.tables) / "_checkpoint")
        stream.option("checkpointLocation", place).trigger(
            availableNow=True
        ).start().awaitTermination()
    report.summary(spark, tables)


def _pipeline() -> Pipeline:
    pipeline = Pipeline(
        records=json_records("word STRING, count BIGINT, id STRING"), identity="id", without="id"
    )

    @pipeline.gold(
        "words", keys=["word"], latest=["count"], add=["times"], order="sink", replays=True
    )
    def words(rows: DataFrame) -> DataFrame:
        return rows.withColumn("times", sf.lit(1))

    @pipeline.gold("minutes", keys=["minute", "word"], add=["times"])
    def minutes(rows: DataFrame) -> DataFrame:
        return rows.withColumns(
            {"minute": sf.date_trunc("minute", "kafka_timestamp"), "times": sf.lit(1)}
        )

    return pipeline


def _records(spark: SparkSession, begin: int) -> DataFrame:
    at = datetime.now(UTC)
    values = [
        json.dumps({"word": "w", "count": n, "id": f"t-0-{n}-0"}).encode()
        for n in range(begin, begin + 100)
    ]
    rows = [(b"w", value, "t", 0, begin + place, at, None) for place, value in enumerate(values)]
    return spark.createDataFrame(rows, columns_of(BRONZE))


def _open_kafka(spark: SparkSession) -> None:
    """Load the classes of a Kafka source and its client, without connecting to a broker."""
    options = {"kafka.bootstrap.servers": _NOWHERE, "subscribe": "t"}
    _ = spark.readStream.format("kafka").options(**options).load().columns
    jvm: Any = spark._jvm
    conf = jvm.java.util.HashMap()
    conf.put("bootstrap.servers", _NOWHERE)
    for each in ("key", "value"):
        conf.put(
            f"{each}.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        )
    jvm.org.apache.kafka.clients.consumer.KafkaConsumer(conf).close()


def _end_java() -> None:
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
