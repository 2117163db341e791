"""Marks avoid look-ups without missing a replay."""

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import replay_lookup
from kstorm_pipeline.arrow import batches
from kstorm_pipeline.batch_stats import BatchStats
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.high_water_marks import HighWaterMarks
from kstorm_pipeline.lineage import bucket_of
from kstorm_pipeline.occurrences import source_of
from kstorm_pipeline.refine import refine
from kstorm_pipeline.spans import IntegerSpan
from tests.pipeline.conftest import Job
from tests.pipeline.topic import bronze

pytestmark = pytest.mark.timeout(900)


def messages(*spans: tuple[int, int, int], topic: str = "sentences") -> BatchStats:
    """Return a batch of messages, given by source partition, first and last offset."""
    sources = [IntegerSpan((topic, partition), first, last) for partition, first, last in spans]
    return BatchStats(size=1, malformed=0, named=1, sources=sources, tells_no_offset=False)


class TestOfARun:
    """In one run whose tables began empty."""

    @pytest.fixture
    def marks(self, job: Job) -> HighWaterMarks:
        job.run()
        return HighWaterMarks(job.tables)

    @pytest.mark.slow
    def test_messages_after_all_written_ones_are_not_looked_up(
        self, job: Job, marks: HighWaterMarks
    ) -> None:
        assert not marks.reach(job.spark, messages((0, 0, 9)))
        marks.note(messages((0, 0, 9), (1, 0, 500)).sources)
        assert not marks.reach(job.spark, messages((0, 10, 19), (1, 501, 502)))

    @pytest.mark.slow
    def test_messages_that_may_have_been_written_are_looked_up(
        self, job: Job, marks: HighWaterMarks
    ) -> None:
        assert not marks.reach(job.spark, messages((0, 0, 9)))
        marks.note(messages((0, 0, 9), (1, 0, 500)).sources)
        assert marks.reach(job.spark, messages((0, 9, 19)))
        assert marks.reach(job.spark, messages((0, 10, 19), (1, 500, 500)))

    @pytest.mark.slow
    def test_partitions_in_one_bucket_have_separate_marks(
        self, job: Job, marks: HighWaterMarks
    ) -> None:
        assert not marks.reach(job.spark, messages((0, 0, 9)))
        marks.note(messages((0, 0, 9), (64, 1000, 1009)).sources)
        assert bucket_of("sentences", 0) == bucket_of("sentences", 64)
        assert not marks.reach(job.spark, messages((0, 10, 19)))

    @pytest.mark.slow
    def test_batch_without_source_offsets_is_looked_up(
        self, job: Job, marks: HighWaterMarks
    ) -> None:
        assert marks.reach(
            job.spark, BatchStats(size=1, malformed=0, named=1, sources=None, tells_no_offset=False)
        )
        assert marks.reach(
            job.spark, BatchStats(size=1, malformed=0, named=1, sources=[], tells_no_offset=True)
        )


@pytest.mark.slow
def test_run_begins_with_the_marks_of_silver(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including rows written by others since. After a batch with too many source partitions, the
    marks are read from silver again."""
    for offset in range(5):
        job.sink.word("tree", f"sentences-3-{offset}-0")
    job.run()
    assert DeltaLog(job.spark, job.tables.path("silver")).noted_files()
    with monkeypatch.context() as patch:  # like a table with very many files
        patch.setattr(DeltaLog, "noted_files", lambda _: None)
        many = HighWaterMarks(job.tables)
        assert many.reach(job.spark, messages((3, 4, 4)))
        assert not many.reach(job.spark, messages((3, 5, 9)))
    marks = HighWaterMarks(job.tables)
    assert marks.reach(job.spark, messages((3, 4, 4)))
    assert not marks.reach(job.spark, messages((3, 5, 9)))
    job.sink.word("tree", "sentences-3-7-0")
    job.run()
    assert not marks.reach(job.spark, messages((3, 5, 9)))
    marks.note(None)
    assert marks.reach(job.spark, messages((3, 5, 9)))
    assert not marks.reach(job.spark, messages((3, 8, 9)))


@pytest.mark.long
def test_files_without_statistics_are_always_looked_up(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such files exist if Delta is configured to write none."""
    job.sink.word("tree", "sentences-3-1-0")
    job.run()
    job.tables.set_properties(job.spark, "silver", {"delta.dataSkippingNumIndexedCols": "0"})
    job.sink.word("tree", "sentences-3-2-0")
    with monkeypatch.context() as patch:  # Python writes them in any case
        patch.setattr(batches, "_layout_for", lambda *_: None)
        job.run()
    for _ in range(2):
        assert HighWaterMarks(job.tables).reach(job.spark, messages((3, 1_000_000, 1_000_000)))
        assert not HighWaterMarks(job.tables).reach(job.spark, messages((4, 1_000_000, 1_000_000)))
        monkeypatch.setattr(
            DeltaLog, "noted_files", lambda _: None
        )  # like a table with very many files


@pytest.mark.long
def test_batches_of_new_messages_never_read_silver(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one run of many batches. A replay in a later one is still found."""
    looks: list[object] = []
    held = replay_lookup._held

    def looking(*given: object) -> object:
        looks.append(given)
        return held(*given)  # type: ignore[arg-type] # what it was called with

    monkeypatch.setattr(replay_lookup, "_held", looking)
    job.run()
    job.spark.sparkContext.setLocalProperty("sql.streaming.queryId", "marks")
    marks = HighWaterMarks(job.tables)
    for number, message in enumerate((0, 1, 2, 1)):
        assert not looks
        record = {
            "word": "tree",
            "count": number + 1,
            "id": f"sentences-1-{message}-0",
            "emitted_at": 0,
        }
        rows = bronze(job.spark, [json.dumps(record).encode()]).withColumn(
            "offset", sf.lit(number).cast("bigint")
        )
        refine(job.tables, job.pipeline, rows, number, marks)
    assert len(looks) == 1
    assert sorted(job.silver) == ["sentences-1-0-0", "sentences-1-1-0", "sentences-1-2-0"]


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["sentences", "a.b-c_d", "T"])
def test_bucket_is_the_same_in_python_and_spark(spark: SparkSession, topic: str) -> None:
    names = spark.createDataFrame(
        [(f"{topic}-{partition}-7-0",) for partition in (0, 1, 63, 64, 999)], "name STRING"
    )
    found = names.withColumns(source_of("name")).collect()
    assert [row["source_bucket"] for row in found] == [
        bucket_of(topic, row["source_partition"]) for row in found
    ]
