"""Crashes at any point, and the next run after them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from kstorm.dev.class_archive import short_run_options
from kstorm.dev.java import spark_environment
from kstorm_pipeline import query_watch, refine
from kstorm_pipeline import run as running
from kstorm_pipeline.errors import PipelineError
from tests.pipeline.beside import run_beside
from tests.pipeline.breaking import break_off_after_each
from tests.pipeline.conftest import Job, await_condition
from tests.pipeline.sink import MINUTE, NOON

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

WRITES = ["write_quarantine", "write_silver", "word_counts", "counts_per_minute"]
"""The commits of a batch in order. The last two are gold tables."""


@pytest.mark.long
def test_crash_after_any_write_duplicates_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch ends after its first write, then after its second, and so on."""
    job.sink.sentence(1, "the cat the dog")
    job.sink.malformed(b"{}")
    job.run()
    job.sink.sentence(1, "the cat the dog")
    job.sink.sentence(2, "the end of the dog", at=NOON + MINUTE)
    job.sink.sentence(2, "the end of the dog", at=NOON + 2 * MINUTE)
    job.sink.malformed(b"[]")
    break_off_after_each(WRITES, monkeypatch, job.run)
    job.run()
    job.check()
    job.sink.sentence(2, "the end of the dog", at=NOON + 3 * MINUTE)
    job.sink.sentence(3, "the end")
    job.run()
    job.check()


@pytest.mark.long
def test_run_killed_between_two_writes_is_recovered(job: Job, tmp_path: Path) -> None:
    """SIGKILL hits the process and its JVM after silver and before gold is written. The next run
    completes the batch."""
    for number in range(200):
        job.sink.sentence(number, "the cat and the dog", at=NOON + number * 1000)
    for number in range(50, 60):
        job.sink.sentence(number, "the cat and the dog", at=NOON + 300_000)
    job.sink.malformed(b"?")
    job.sink.flush()
    command = _command(job, tmp_path / "report.json")
    silver = _written(job, "silver", 1)
    done = tmp_path / "_checkpoints" / "refine" / "commits" / "0"
    with subprocess.Popen(
        command, env=_environment(), start_new_session=True, stderr=subprocess.DEVNULL
    ) as process:
        await_condition(lambda: silver.exists() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not done.exists(), "the kill came too late to show anything"
    subprocess.run(command, env=_environment(), check=True, stderr=subprocess.DEVNULL)
    job.check()
    report = json.loads((tmp_path / "report.json").read_text())
    found = [report["rows"][name] for name in ("bronze", "silver", "quarantine", "word_counts")]
    assert found == [1051, 1000, 1, 4]
    assert job.word_counts["the"] == (420, 400)


def _written(job: Job, table: str, times: int) -> Path:
    """Return the log file that exists once the table has been written this many times."""
    return Path(job.tables.path(table)) / "_delta_log" / f"{times:020}.json"


def _command(job: Job, report: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "kstorm_pipeline", "run", "--topic", job.sink.topic),
        *("--bootstrap-servers", job.sink.bootstrap, "--tables", job.settings.tables),
        *("--pipeline", "examples.wordcount.tables:pipeline"),
        *(
            "--jars",
            ",".join(job.settings.jars),
            "--max-records-per-batch",
            "600",
            "--report",
            str(report),
        ),
        f"--driver-java-options={short_run_options()}",
    ]


def _environment() -> dict[str, str]:
    return {**os.environ, **spark_environment()}


@pytest.mark.slow
def test_continuous_follows_the_topic_until_sigterm(job: Job) -> None:
    """New records reach gold. SIGTERM ends it after the current batch, and a later run adds
    nothing."""
    job.sink.sentence(1, "the cat")
    job.sink.flush()

    def user() -> None:
        await_condition(_written(job, "word_counts", 1).exists)
        job.sink.sentence(2, "the dog")
        job.sink.flush()
        await_condition(lambda: "dog" in job.word_counts)

    run_beside(user, lambda: job.run(trigger="continuous", interval_seconds=0.5))
    job.check()
    job.run()
    job.check()


@pytest.mark.slow
def test_stop_during_a_batch_is_logged_briefly(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch takes longer than the stop waits. The next run repeats it."""
    queries: list[StreamingQuery] = []
    at_work = threading.Event()
    start = running._start

    def note(*arguments: Any) -> StreamingQuery:
        queries.append(start(*arguments))
        return queries[-1]

    def work_for_long(*_: Any) -> int:
        at_work.set()
        while True:
            job.spark.range(1_000_000).count()

    job.sink.sentence(1, "the cat")
    with monkeypatch.context() as patch:
        patch.setattr(query_watch, "_STOP_SECONDS", 0)
        patch.setattr(refine, "merge_gold", work_for_long)
        patch.setattr(running, "_start", note)
        run_beside(
            lambda: await_condition(at_work.is_set),
            lambda: job.run(trigger="continuous", interval_seconds=0.5),
        )
    [told] = [str(error) for query in queries if (error := query.exception()) is not None]
    assert "_EndedError" in told
    assert "InterruptedException" not in told
    job.run()
    job.check()


@pytest.mark.slow
def test_tables_without_their_checkpoint_are_refused(job: Job) -> None:
    """Without its checkpoint a query would write everything again. The error has one line with the
    remedy."""
    job.sink.sentence(1, "the cat")
    job.run()
    shutil.rmtree(Path(job.settings.checkpoint_root) / "refine")
    with pytest.raises(
        PipelineError,
        match=r"the checkpoint \S+ is missing, but its table silver has rows: .* delete",
    ) as error:
        job.run()
    assert "\n" not in str(error.value)
    for name in ("silver", "quarantine", "word_counts", "counts_per_minute"):
        shutil.rmtree(Path(job.settings.tables) / name)
    job.run()
    job.check()
    shutil.rmtree(Path(job.settings.tables) / "silver")
    with pytest.raises(
        PipelineError, match=r"the table \S+silver is missing, but its checkpoint exists"
    ):
        job.run()
