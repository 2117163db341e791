"""Tables and checkpoints on S3: every occurrence counts once, also if driver and executors are killed.

`./run test pipeline -m s3` runs it. It needs Go, which builds the object store, and downloads half a
gigabyte of jars, once.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kstorm.dev.jars import s3_jars, spark_jars
from kstorm.dev.java import SHORT_RUN_OPTIONS, spark_environment
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka
from tests.pipeline.conftest import await_condition
from tests.pipeline.dying_executors import MOMENTS as DEATHS
from tests.pipeline.dying_executors import SAID
from tests.pipeline.object_store import BUCKET, ObjectStore
from tests.pipeline.sink import MINUTE, NOON, Sink

pytestmark = [pytest.mark.s3, pytest.mark.timeout(1800)]

LONGEST = 300.0
"""Seconds for one run of the command."""
KILLS = [
    "silver/_delta_log",  # the tables are being created
    "_checkpoints/bronze/offsets",
    "bronze/_delta_log",
    "_checkpoints/bronze/commits",
    "_checkpoints/refine/offsets",
    "quarantine/_delta_log",
    "silver/_delta_log",
    "word_counts/_delta_log",
    "counts_per_minute/_delta_log",
    "_checkpoints/refine/commits",
]
"""The driver is killed as soon as there is something new in this folder: the steps of the two queries, in their order."""


@dataclass(frozen=True)
class Cloud:
    """A sink topic, and a folder of a bucket for its tables."""

    store: ObjectStore
    sink: Sink
    workdir: Path

    def driver(
        self, name: str, *flags: str, before: tuple[str, ...] = ("-m", "kstorm_pipeline")
    ) -> ManagedProcess:
        """Start a run of the pipeline as a process."""
        self.sink.flush()
        topic = ("--topic", self.sink.topic, "--bootstrap-servers", self.sink.bootstrap)
        tables = ("--pipeline", "examples.wordcount.tables:pipeline")
        return self.command(name, *before, "run", *topic, *tables, *flags)

    def command(
        self, name: str, *words: str, login: Mapping[str, str] | None = None
    ) -> ManagedProcess:
        """Start a command of the pipeline as a process."""
        # `local:` is where each JVM finds a jar itself; else every executor would be sent half a gigabyte.
        jars = ",".join(f"local:{jar}" for jar in (*spark_jars(), *s3_jars()))
        conf = [
            part
            for pair in self.store.spark_conf.items()
            for part in ("--spark-conf", "=".join(pair))
        ]
        places = (
            "--tables",
            f"s3a://{BUCKET}/{self.sink.topic}",
            "--jars",
            jars,
            "--shuffle-partitions",
            "2",
        )
        command = [
            sys.executable,
            *words,
            *places,
            f"--driver-java-options={SHORT_RUN_OPTIONS}",
            *conf,
        ]
        environment = {**spark_environment(), **self.store.login, **(login or {})}
        return ManagedProcess(name, command, workdir=self.workdir, environment=environment)

    def names(self, folder: str) -> set[str]:
        """Return the names in a folder of these tables, except Spark's temporary files."""
        return {
            name
            for name in self.store.names(f"{self.sink.topic}/{folder}")
            if not name.startswith((".", "_"))
        }

    def half_done(self) -> set[str]:
        """Return the queries with a batch that is begun but not committed."""
        checkpoints = {name: f"_checkpoints/{name}" for name in ("bronze", "refine")}
        return {
            name
            for name, place in checkpoints.items()
            if not self.names(f"{place}/offsets") <= self.names(f"{place}/commits")
        }

    def check(self) -> None:
        """Assert that a last run succeeds, and the tables match the topic in plain Python, without
        duplicates."""
        found = self.finish()
        first = self.sink.first.values()
        assert sorted((row["partition"], row["offset"]) for row in found["bronze"]) == sorted(
            (record.partition, record.offset) for record in self.sink.records
        )
        assert sorted(
            (row["occurrence"], row["word"], row["kafka_partition"], row["kafka_offset"])
            for row in found["silver"]
        ) == sorted((record.id, record.word, record.partition, record.offset) for record in first)
        assert sorted(
            (row["word"], row["count"], row["occurrences"]) for row in found["word_counts"]
        ) == sorted((word, *counts) for word, counts in self.sink.word_counts.items())
        assert sorted(
            (at(row["window_start"]), row["word"], row["occurrences"])
            for row in found["counts_per_minute"]
        ) == (sorted((*pair, count) for pair, count in self.sink.counts_per_minute.items()))
        assert len(found["quarantine"]) == len(self.sink.records) - len(self.sink.good)

    def finish(self) -> dict[str, list[dict[str, Any]]]:
        """Bring the tables up to date, and return all their rows."""
        files = {
            name: self.workdir / f"{name}.json"
            for name in ("bronze", "silver", "quarantine", "word_counts")
        }
        files["counts_per_minute"] = self.workdir / "counts_per_minute.json"
        last = self.driver(
            "last",
            *(part for pair in files.items() for part in ("--export", "{}={}".format(*pair))),
        )
        last.start()
        assert last.wait(LONGEST) == 0, last.log_tail()
        return {name: [json.loads(line) for line in file.open()] for name, file in files.items()}


def at(time: str) -> int:
    """Return milliseconds since 1970 of a time in Spark's JSON."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("minio")) as server:
        yield server


@pytest.fixture
def cloud(store: ObjectStore, kafka: EmbeddedKafka, tmp_path: Path) -> Cloud:
    return Cloud(store, Sink(kafka.bootstrap), tmp_path)


def write(sink: Sink, portion: int) -> None:
    """Write 100 new sentences, 20 replays (some of the previous portion), and 2 unreadable records."""
    first = portion * 100
    for number in range(first, first + 100):
        sink.sentence(number, "the cat and the dog", at=NOON + number * 1000)
    for number in range(max(0, first - 10), first + 10):
        sink.sentence(number, "the cat and the dog", at=NOON + MINUTE * portion)
    sink.malformed(b"?")
    sink.malformed(None)


def test_driver_killed_at_any_step_duplicates_nothing(cloud: Cloud) -> None:
    """It runs continuously. SIGKILL hits it as soon as a step has reached the bucket, one step
    after another."""
    driver = cloud.driver(
        "driver", "--trigger", "continuous", "--interval-seconds", "0.2", "--master", "local[2]"
    )
    left = []
    for portion, folder in enumerate(KILLS):
        write(cloud.sink, portion)
        cloud.sink.flush()
        before = cloud.names(folder)
        driver.start()
        await_condition(lambda: cloud.names(folder) > before or not driver.alive, LONGEST)  # noqa: B023 (called at once)
        assert driver.alive, driver.log_tail()
        driver.kill()
        left.append(cloud.half_done())
    assert sum(map(bool, left)) >= 5, f"most kills came between two batches: {left}"
    cloud.check()


@pytest.mark.parametrize("death", DEATHS)
def test_executors_killed_during_a_batch_duplicate_nothing(cloud: Cloud, death: str) -> None:
    """Silver has occurrences of the batch when they die. The run may fail, and the next one
    recovers it."""
    write(cloud.sink, 0)
    first = cloud.driver("first", "--master", "local[2]")
    first.start()
    assert first.wait(LONGEST) == 0, first.log_tail()
    write(cloud.sink, 1)
    broken = cloud.driver(
        "broken",
        "--master",
        "local-cluster[2,1,1024]",
        before=("-m", "tests.pipeline.dying_executors", death),
    )
    broken.start()
    assert broken.wait(LONGEST) in (0, 1), broken.log_tail()
    assert f"{SAID}{1 if death.startswith('amid') else 2}" in broken.log_path.read_text()
    assert (broken.returncode == 1) == bool(cloud.half_done())
    cloud.check()


def test_maintain_on_s3_commits_nothing(cloud: Cloud) -> None:
    """Because another process could commit at the same time. It logs the reason, and the tables
    stay the same."""
    write(cloud.sink, 0)
    write(cloud.sink, 1)
    first = cloud.driver("first", "--master", "local[2]", "--max-records-per-batch", "600")
    first.start()
    assert first.wait(LONGEST) == 0, first.log_tail()
    folders = [
        f"{table}/_delta_log"
        for table in ("bronze", "silver", "quarantine", "word_counts", "counts_per_minute")
    ]
    before = {folder: cloud.names(folder) for folder in folders}
    maintain = cloud.command("maintain", "-m", "kstorm_pipeline", "maintain")
    maintain.start()
    assert maintain.wait(LONGEST) == 0, maintain.log_tail()
    assert (
        maintain.log_path.read_text().count(
            "on S3 a commit of this process and one of the pipeline"
        )
        == 1
    )
    assert {folder: cloud.names(folder) for folder in folders} == before
    cloud.check()


def test_wrong_login_does_not_look_like_an_empty_bucket(cloud: Cloud) -> None:
    """The error has the store's own words in one line."""
    wrong = {"AWS_SECRET_ACCESS_KEY": "guessed"}
    summary = cloud.command("summary", "-m", "kstorm_pipeline", "summary", login=wrong)
    summary.start()
    assert summary.wait(LONGEST) == 1, summary.log_tail()
    (line,) = [
        line
        for line in summary.log_path.read_text().splitlines()
        if line.startswith("kstorm_pipeline: ")
    ]
    assert "cannot be read" in line
    assert "SignatureDoesNotMatch" in line
