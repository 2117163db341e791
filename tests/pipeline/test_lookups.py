"""Files of silver that a batch reads to find replays. They must not grow with silver."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from kstorm_pipeline import Pipeline, PipelineError, json_records
from kstorm_pipeline.spans import IntegerSpan, join_spans
from tests.pipeline.conftest import Job

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that


@pytest.mark.long
def test_batch_reads_only_the_silver_files_of_its_replays(job: Job) -> None:
    """Whatever offsets the source partitions have, and although one is added later. A batch of new
    messages reads nothing, a late replay one file. The partitions' offsets are far apart, so those
    of one lie between those of the others."""
    read: list[int] = []
    for run in range(5):
        _write_new_messages(job, run)
        read.append(_silver_files_read_by_run(job))
    _write_new_messages(job, 5)
    job.sink.word("word0", "sentences-0-1000001-0")
    read.append(_silver_files_read_by_run(job))
    assert read == [0, 0, 0, 0, 0, 1]
    job.check()


def _write_new_messages(job: Job, run: int) -> None:
    """Write words of the next messages of all source partitions. The third partition begins with
    the third run."""
    for partition, first in ((0, 1_000_000), (1, 500), (2, 0)):
        if partition < 2 or run >= 2:
            for offset in range(1000 * run, 1000 * run + 10):
                job.sink.word(f"word{partition}", f"sentences-{partition}-{first + offset}-0")


def _silver_files_read_by_run(job: Job) -> int:
    """Run the pipeline. Return the most silver files that one of its plans read, from Spark's
    metrics."""
    job.spark.conf.set(
        "spark.sql.maxMetadataStringLength", "1000"
    )  # so that plans name whole paths
    before = max(map(_number, _executions(job.spark)), default=-1)
    job.run()
    job.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    new = [execution for execution in _executions(job.spark) if _number(execution) > before]
    return max(_files_read(job.spark, execution, job.tables.path("silver")) for execution in new)


def _files_read(spark: SparkSession, execution: JavaObject, path: str) -> int:
    store = _store(spark)
    values = store.executionMetrics(_number(execution))
    read: dict[int, int] = {}  # by accumulator: a plan may show one scan twice
    for node in _each(store.planGraph(_number(execution)).allNodes()):
        if node.name().startswith("Scan parquet") and f"{path}]" in node.desc():
            (metric,) = (
                metric
                for metric in _each(node.metrics())
                if metric.name() == "number of files read"
            )
            found = values.get(metric.accumulatorId())
            read[metric.accumulatorId()] = (
                int(found.get().replace(",", "")) if found.isDefined() else 0
            )
    return sum(read.values())


def _store(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession.sharedState().statusStore()


def _executions(spark: SparkSession) -> Iterator[JavaObject]:
    return _each(_store(spark).executionsList())


def _number(execution: JavaObject) -> int:
    return int(execution.executionId())


def _each(scala: JavaObject) -> Iterator[JavaObject]:
    """Iterate over a Scala collection."""
    found = scala.iterator()
    while found.hasNext():
        yield found.next()


@pytest.mark.slow
def test_silver_has_the_pipelines_columns_first(job: Job) -> None:
    """Delta has statistics only of the first 32 columns."""
    fields = ", ".join(f"f{number} STRING" for number in range(40))
    wide = replace(job, pipeline=Pipeline(records=json_records(fields)))
    wide.run()
    columns = wide.read("silver").columns
    assert columns.index("f0") == columns.index("batch") + 1 == 9


@pytest.mark.long
def test_silver_of_an_earlier_version_is_refused_and_rebuilt_from_bronze(job: Job) -> None:
    """The message names what to delete. Replays of earlier messages are still found."""
    job.sink.sentence(1, "the cat")
    job.sink.word("tree", "an-id-of-a-topology-of-ones-own")
    job.run()
    old = job.read("silver").withColumnRenamed("occurrence", "id").drop("batch")
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        job.tables.path("silver")
    )
    job.sink.sentence(1, "the cat")
    job.sink.sentence(2, "the dog")
    job.sink.word("tree", "an-id-of-a-topology-of-ones-own")
    before = job.snapshot()
    with pytest.raises(
        PipelineError, match=r"silver does not match .* rebuild all tables except bronze: delete"
    ) as error:
        job.run()
    assert "\n" not in str(error.value)
    assert job.snapshot() == before
    for place in (
        "silver",
        "quarantine",
        "word_counts",
        "counts_per_minute",
        "_checkpoints/refine",
    ):
        shutil.rmtree(Path(job.settings.tables) / place)
    job.run()
    job.check()


@pytest.mark.long
def test_replays_from_very_many_topics_are_found(job: Job) -> None:
    """The ids look like coordinates, each of another topic."""
    for number in range(300):
        job.sink.word("much", f"order{number}-1-2-3")
    job.run()
    for number in range(250):
        job.sink.word("much", f"order{number}-1-2-3")
    job.run()
    job.check()


@pytest.mark.parametrize(
    ("spans", "gaps", "joined"),
    [
        ([], 1, []),
        ([(5, 9), (1, 2)], 1, [(1, 2), (5, 9)]),
        ([(5, 9), (1, 4)], 1, [(1, 9)]),
        ([(1, 2), (5, 6), (100, 101), (105, 105)], 1, [(1, 6), (100, 105)]),
        ([(1, 2), (5, 6), (100, 101)], 0, [(1, 101)]),
    ],
)
def test_spans_keep_the_widest_gaps(
    spans: list[tuple[int, int]], gaps: int, joined: list[tuple[int, int]]
) -> None:
    """The spans have one owner. Adjacent spans are joined."""
    assert join_spans([IntegerSpan(("t", 0), *span) for span in spans], gaps) == [
        IntegerSpan(("t", 0), *span) for span in joined
    ]


def test_spans_of_different_owners_are_never_joined() -> None:
    """The limit of gaps does not matter."""
    spans = [IntegerSpan(("t", 0), 1, 2), IntegerSpan(("t", 1), 3, 4), IntegerSpan(("u", 0), 5, 6)]
    assert join_spans(reversed(spans), 0) == spans
