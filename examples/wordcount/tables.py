"""The tables of the word count.

    kstorm-pipeline run --pipeline examples.wordcount.tables:pipeline --topic word-counts …

    word_counts        one row per word
    counts_per_minute  one row per minute and word

They are exact whatever guarantee the topology has: a word's occurrence that is written twice is
counted once. It is identified by the `id` in the record, or by the record's lineage if the sink
writes it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, json_records

pipeline = Pipeline(
    records=json_records(
        "word STRING NOT NULL, count BIGINT NOT NULL, id STRING, emitted_at TIMESTAMP NOT NULL",
        millis="emitted_at",
        reject={"field count is below 1": "count < 1"},
    ),
    identity="id",
    without="id",  # the column `occurrence` of silver has it
)


@pipeline.gold(
    "word_counts", keys=["word"], latest=["count"], add=["occurrences"], order="sink", replays=True
)
def word_counts(rows: DataFrame) -> DataFrame:
    """Return the topology's latest count, which grows with replays, and the exact occurrences."""
    return rows.withColumn("occurrences", sf.when(sf.col("replay"), 0).otherwise(1))


@pipeline.gold(
    "counts_per_minute", keys=["window_start", "word"], add=["occurrences"], replace=["window_end"]
)
def counts_per_minute(fresh: DataFrame) -> DataFrame:
    """Count each word per minute of its Kafka timestamp.

    Late occurrences count in their own minute.
    """
    start = sf.date_trunc("minute", "kafka_timestamp")
    minutes = fresh.withColumns({"window_start": start, "occurrences": sf.lit(1)})
    return minutes.withColumn("window_end", sf.expr("window_start + INTERVAL 1 MINUTE"))
