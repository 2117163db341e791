"""One Spark for all pipeline tests, and a job with its own tables for each test."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from examples.wordcount.tables import pipeline as word_count
from kstorm.dev.class_archive import short_run_options
from kstorm.dev.java import spark_environment
from kstorm.dev.servers import EmbeddedKafka
from kstorm_pipeline.pipeline import Pipeline
from kstorm_pipeline.run import run
from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.orders import Orders
from tests.pipeline.sink import Sink
from tests.pipeline.topic import Topic
from tests.spark_release import SELECTED, spark_jars


def await_condition(condition: Callable[[], bool], timeout: float = 150.0) -> None:
    """Wait until a condition is true. Fail after some seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s"
        time.sleep(0.01)


@dataclass(frozen=True)
class Job:
    """A sink topic and the tables made from it. By default those of the word count."""

    spark: SparkSession
    settings: Settings
    sink: Sink
    pipeline: Pipeline = field(default_factory=lambda: word_count)

    @property
    def tables(self) -> Tables:
        return Tables(self.settings.tables)

    def run(self, **changes: Any) -> None:
        """Run the pipeline over the records in the sink, optionally with other settings."""
        self.sink.flush()
        run(self.spark, replace(self.settings, **changes), self.tables, self.pipeline)

    def read(self, name: str) -> DataFrame:
        return self.tables.read(self.spark, name)

    def snapshot(self) -> dict[str, list[str]]:
        """Return all rows of all tables as text, in an order that does not depend on files."""
        return {
            name: sorted(map(str, self.read(name).collect()))
            for name in self.tables.names(self.spark)
        }

    @property
    def silver(self) -> dict[str, tuple[str, int, int, int]]:
        """Return silver by id: word, count, partition and offset. Fails on a duplicate id."""
        columns = ("occurrence", "word", "count", "kafka_partition", "kafka_offset")
        rows = self.read("silver").select(*columns).collect()
        by_id = {row[0]: tuple(row[1:]) for row in rows}
        assert len(by_id) == len(rows), "an id is in silver twice"
        return by_id

    @property
    def word_counts(self) -> dict[str, tuple[int, int]]:
        """Return gold by word: count and occurrences. Fails on a duplicate word."""
        rows = self.read("word_counts").select("word", "count", "occurrences").collect()
        by_word = {row[0]: (row[1], row[2]) for row in rows}
        assert len(by_word) == len(rows), "a word is in gold twice"
        return by_word

    @property
    def counts_per_minute(self) -> dict[tuple[int, str], int]:
        """Return gold by minute (its start in milliseconds) and word. Fails on a duplicate pair."""
        rows = (
            self.read("counts_per_minute")
            .select(sf.unix_millis("window_start"), "word", "occurrences")
            .collect()
        )
        by_pair = {(row[0], row[1]): row[2] for row in rows}
        assert len(by_pair) == len(rows), "a minute and word are in gold twice"
        return by_pair

    def check(self) -> None:
        """Assert that all tables match the records in the sink, without duplicates."""
        places = sorted(
            (row[0], row[1]) for row in self.read("bronze").select("partition", "offset").collect()
        )
        assert places == sorted((record.partition, record.offset) for record in self.sink.records)
        expected = {
            r.id: (r.word, r.count, r.partition, r.offset) for r in self.sink.first.values()
        }
        assert self.silver == expected
        assert self.word_counts == self.sink.word_counts
        assert self.counts_per_minute == self.sink.counts_per_minute
        assert self.read("quarantine").count() == len(self.sink.records) - len(self.sink.good)


@pytest.fixture(scope="session")
def settings(kafka: EmbeddedKafka) -> Settings:
    """Settings shared by all jobs. Each job has its own tables and topic."""
    return Settings(
        tables="",
        bootstrap_servers=kafka.bootstrap,
        jars=tuple(map(str, spark_jars())),
        master="local[2]",
        shuffle_partitions=2,
        driver_java_options=short_run_options(),
    )


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    before = dict(os.environ)
    os.environ.update(spark_environment())
    session = start_spark(settings)
    assert session.version == SELECTED
    session.conf.set(
        "spark.sql.codegen.fallback", "false"
    )  # code that Spark cannot compile is an error, not slow
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def make_job(spark: SparkSession, settings: Settings) -> Callable[[Path], Job]:
    """Return a function that makes a job with tables below a directory, and an empty topic."""

    def make(directory: Path) -> Job:
        sink = Sink(settings.bootstrap_servers)
        return Job(spark, replace(settings, tables=str(directory), topic=sink.topic), sink)

    return make


@pytest.fixture
def job(make_job: Callable[[Path], Job], tmp_path: Path) -> Job:
    return make_job(tmp_path)


@pytest.fixture
def orders(spark: SparkSession, settings: Settings, tmp_path: Path) -> Orders:
    """An empty topic of orders with its own tables."""
    topic = Topic(settings.bootstrap_servers)
    return Orders(spark, replace(settings, tables=str(tmp_path), topic=topic.topic), topic)
