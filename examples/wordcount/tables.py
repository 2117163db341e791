"""The tables of the word count: `kstorm-pipeline run --pipeline examples.wordcount.tables:pipeline --topic word-counts …`.

    word_counts        one row per word
    counts_per_minute  one row per minute and word

They are exact whatever guarantee the topology has: an occurrence of a word that is written twice is counted once here. Its name is
the `id` in the record, or the record's lineage where the sink writes it.
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
    without="id",  # silver has it as `occurrence`
)


@pipeline.gold(
    "word_counts", keys=["word"], latest=["count"], add=["occurrences"], order="sink", replays=True
)
def word_counts(rows: DataFrame) -> DataFrame:
    """The latest count that the topology wrote, which grows with replays, and beside it how often the word occurs: exact."""
    return rows.withColumn("occurrences", sf.when(sf.col("replay"), 0).otherwise(1))


@pipeline.gold(
    "counts_per_minute", keys=["window_start", "word"], add=["occurrences"], replace=["window_end"]
)
def counts_per_minute(fresh: DataFrame) -> DataFrame:
    """How often each word occurs in each minute, by Kafka timestamps; an occurrence that comes late counts in its own minute."""
    start = sf.date_trunc("minute", "kafka_timestamp")
    minutes = fresh.withColumns({"window_start": start, "occurrences": sf.lit(1)})
    return minutes.withColumn("window_end", sf.expr("window_start + INTERVAL 1 MINUTE"))
