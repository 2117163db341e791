"""Effects of `maintain` on the tables, next to a pipeline that runs or lags."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, PipelineError, json_records
from kstorm_pipeline import run as running
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.maintenance import compact, maintain, may_commit
from kstorm_pipeline.tables import Tables
from tests.pipeline.beside import run_beside
from tests.pipeline.breaking import CrashError
from tests.pipeline.conftest import Job, await_condition
from tests.pipeline.orders import COLUMNS, Orders

TABLES = ("bronze", "silver", "quarantine", "word_counts", "counts_per_minute")

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that


def maintained(job: Job, **changes: Any) -> dict[object, dict[str, object]]:
    """Return the reports by table."""
    return {
        done["table"]: done
        for done in maintain(job.spark, replace(job.settings, **changes), job.tables)
    }


def keep(job: Job, table: str, time: str) -> None:
    job.tables.set_properties(
        job.spark, table, {"delta.deletedFileRetentionDuration": f"interval {time}"}
    )


def files(job: Job, table: str) -> set[str]:
    """Return the names of the data files below a table's directory."""
    return {
        file.name
        for file in Path(job.tables.path(table)).rglob("*.parquet")
        if "_delta_log" not in file.parts
    }


def held(job: Job, table: str) -> set[str]:
    """Return the names of the files that the table consists of."""
    return {Path(file).name for file in job.read(table).inputFiles()}


def lag(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring only bronze up to date."""

    def die(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(running, "refine", die)
        with pytest.raises(PipelineError, match="a query failed"):
            job.run()


def check_all_but_bronze(job: Job) -> None:
    assert set(job.silver) == set(job.sink.first)
    assert job.word_counts == job.sink.word_counts
    assert job.counts_per_minute == job.sink.counts_per_minute


@pytest.mark.long
def test_small_files_are_combined_and_old_files_deleted(job: Job) -> None:
    """After their retention, which is zero here. The rows stay, and the next run continues."""
    for number in range(3):
        job.sink.sentence(number, f"the cat {number}")
        job.run()
    before = job.snapshot()
    for name in TABLES:
        keep(job, name, "0 seconds")
    assert len(files(job, "word_counts")) > len(held(job, "word_counts"))
    done = maintained(job)
    assert set(done) == set(TABLES)
    for name in TABLES:
        assert files(job, name) == held(job, name)
        assert done[name]["files"] == len(held(job, name)) <= 1
    assert int(str(done["bronze"]["files_before"])) >= 3
    assert job.snapshot() == before
    assert maintained(job)["bronze"]["files_before"] == 1
    job.sink.sentence(1, "the cat 1")
    job.sink.sentence(4, "the dog")
    job.run()
    job.check()


@pytest.mark.long
def test_retention_of_old_files(job: Job) -> None:
    """For active readers and for time travel. A user's own setting stays."""
    job.run()
    name, log = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
    found = {table: job.tables.properties(job.spark, table) for table in TABLES}
    assert {table: found[table][name] for table in TABLES} == {
        table: "interval 7 days" if table == "bronze" else "interval 1 day" for table in TABLES
    }
    assert {found[table][log] for table in TABLES} == {"interval 7 days"}
    keep(job, "silver", "9 days")
    job.run()
    maintained(job)
    assert job.tables.properties(job.spark, "silver")[name] == "interval 9 days"


@pytest.mark.long
def test_only_old_and_read_records_of_bronze_are_deleted(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Kafka timestamp, which is in 2023 here. Records that only bronze has are read first."""
    for number in range(2):
        job.sink.sentence(number, f"the cat {number}")
        job.run()
    assert maintained(job)["bronze"]["rows_dropped"] == 0
    assert maintained(job, bronze_days=36500)["bronze"]["rows_dropped"] == 0
    job.sink.sentence(2, "the dog")
    job.sink.sentence(1, "the cat 1")
    lag(job, monkeypatch)
    assert maintained(job, bronze_days=100)["bronze"]["rows_dropped"] == 6
    assert job.tables.count(job.spark, "bronze") == 5
    job.run()
    check_all_but_bronze(job)
    assert maintained(job, bronze_days=100)["bronze"]["rows_dropped"] == 5
    assert job.tables.is_empty(job.spark, "bronze")
    job.sink.sentence(3, "the end")
    job.run()
    check_all_but_bronze(job)


@pytest.mark.long
def test_files_of_bronze_stay_until_they_are_read(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Although compaction has replaced them and their retention is over."""
    job.sink.sentence(1, "the cat")
    job.run()
    keep(job, "bronze", "0 seconds")
    for number in range(2, 4):
        job.sink.sentence(number, "the dog")
        lag(job, monkeypatch)
    before = files(job, "bronze")
    assert maintained(job)["bronze"]["files"] == 1
    assert "old files of bronze stay" in caplog.text
    assert before < files(job, "bronze")
    job.run()
    job.check()
    maintained(job)
    assert files(job, "bronze") == held(job, "bronze")


@pytest.mark.slow
def test_merge_that_conflicts_with_compaction_is_retried(
    orders: Orders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Delta refuses the second commit. The batch is in the table once."""
    at_work, go_on = tmp_path / "at-work", tmp_path / "go-on"
    wait, first = str(go_on), str(at_work)

    @sf.udf("string")
    def slowly(text: str) -> str:
        if Path(first).parent.joinpath("armed").exists():
            Path(first).touch()
            while not Path(wait).exists():
                threading.Event().wait(0.01)
        return text

    pipeline = Pipeline(records=json_records(COLUMNS))

    @pipeline.gold("totals", keys=["customer"], add=["orders"])
    def totals(fresh: DataFrame) -> DataFrame:
        return fresh.select(slowly("customer").alias("customer"), sf.lit(1).alias("orders"))

    orders.pipeline = pipeline
    for number, customer in enumerate(("Zoë", "Ann")):
        orders.put(f"0-{number}", customer, "1", "new", 1)
        orders.run()
    assert DeltaLog(orders.spark, orders.tables.path("totals")).files >= 2
    (tmp_path / "armed").touch()
    problems: list[BaseException] = []

    def maintainer() -> None:
        try:
            await_condition(at_work.exists)
            compact(orders.spark.newSession(), orders.tables, "totals")
        except BaseException as problem:  # noqa: BLE001 (it is the main thread's to raise)
            problems.append(problem)
        finally:
            (tmp_path / "armed").unlink()
            go_on.touch()

    thread = threading.Thread(target=maintainer)
    thread.start()
    orders.put("0-7", "Zoë", "1", "new", 1)
    with caplog.at_level("INFO"):
        orders.run()
    thread.join()
    assert not problems, problems
    assert "another process has committed to totals: committing again" in caplog.text
    assert orders.rows("totals", "orders") == {"Zoë": 2, "Ann": 1}


@pytest.mark.long
def test_maintain_during_a_run(job: Job) -> None:
    """Repeatedly, between and during batches. All tables are right."""

    def silver_has(n: int) -> Callable[[], bool]:
        return lambda: job.tables.count(job.spark, "silver") == n

    def user() -> None:
        await_condition(
            lambda: (Path(job.settings.checkpoint_root) / "refine" / "metadata").exists()
        )
        for number in range(1, 5):
            job.sink.sentence(number, f"the cat {number}")
            job.sink.sentence(number // 2, f"the cat {number // 2}")
            job.sink.flush()
            maintained(job)
            await_condition(silver_has(len(job.sink.first)))

    run_beside(user, lambda: job.run(trigger="continuous", interval_seconds=0.5))
    job.run()
    job.check()


@pytest.mark.slow
def test_nothing_is_committed_on_s3(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Unless the log store supports several writers."""
    session = spark.newSession()
    assert may_commit(session, Tables("/tables"))
    assert not may_commit(session, Tables("s3a://tables"))
    assert "Set spark.delta.logStore.s3a.impl for both" in caplog.text
    session.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    assert may_commit(session, Tables("s3a://tables"))


def test_location_without_tables_is_refused(job: Job) -> None:
    """In one line."""
    with pytest.raises(PipelineError, match="there are no tables at"):
        maintained(job)
