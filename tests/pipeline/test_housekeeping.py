"""What is on the disk beside what the tables hold."""

from pathlib import Path

import pytest

from tests.pipeline.beside import run_beside
from tests.pipeline.conftest import Job, await_condition

TABLES = ("silver", "quarantine", "word_counts", "counts_per_minute")
"""All but bronze."""

pytestmark = pytest.mark.timeout(900)  # on two calm cores a minute; with ten others on them ten times that


def test_a_run_that_goes_on_for_ever_removes_old_files(job: Job) -> None:
    """Those that the table has kept for long enough, here no time at all; what the tables hold stays, and so does bronze."""
    for number in range(3):
        job.sink.sentence(number, "the cat")
        job.run()
    before = job.snapshot()
    bronze = _files(job, "bronze")
    for name in TABLES:
        _keep(job, name, "0 seconds")
    assert len(_files(job, "word_counts")) > len(_held(job, "word_counts"))

    def user() -> None:
        await_condition(lambda: all(_files(job, name) == _held(job, name) for name in TABLES))

    run_beside(user, lambda: job.run(trigger="continuous", interval_seconds=0.5))
    assert job.snapshot() == before
    assert _files(job, "bronze") == bronze


@pytest.mark.long
def test_old_files_are_kept_for_a_day(job: Job) -> None:
    """For readers that are at work, and for looking back; what somebody else chose for a table stays."""
    job.run()
    name = "delta.deletedFileRetentionDuration"
    assert {job.tables.properties(job.spark, table)[name] for table in TABLES} == {"interval 1 day"}
    _keep(job, "silver", "9 days")
    job.run()
    assert job.tables.properties(job.spark, "silver")[name] == "interval 9 days"


def _keep(job: Job, table: str, time: str) -> None:
    job.tables.set_properties(job.spark, table, {"delta.deletedFileRetentionDuration": f"interval {time}"})


def _files(job: Job, table: str) -> set[str]:
    """The names of the data files below a table's directory."""
    return {file.name for file in Path(job.tables.path(table)).rglob("*.parquet") if "_delta_log" not in file.parts}


def _held(job: Job, table: str) -> set[str]:
    """The names of those that the table consists of."""
    return {Path(file).name for file in job.read(table).inputFiles()}
