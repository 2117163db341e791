"""Runs the pipeline, with the word count's tables and without any, and the plain job in turn.

The whole process is measured, including Spark's start, because that is the cost of a run. Tables
are counted, then deleted.
"""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kstorm.dev.class_archive import short_run_options
from kstorm.dev.jars import spark_jars
from kstorm.dev.java import spark_environment
from kstorm.dev.paths import run_directory
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import LocalError
from tests.bench import corpus
from tests.bench.broker import Broker
from tests.bench.feed import BenchProducer
from tests.bench.figures import spread
from tests.bench.progress import Progress
from tests.bench.report import machine
from tests.bench.run_parameters import PARTITIONS
from tests.bench.spark.shared_settings import CORES, SHUFFLE_PARTITIONS
from tests.bench.usage import Usage

_TOPIC: Final = "word-counts"
_LONGEST_SECS: Final = 900.0
_FLUSH_SECS: Final = 60.0
_PLAIN: Final = "plain"
_WORD_COUNT: Final = "examples.wordcount.tables:pipeline"
_TITLES: Final = {"seconds": "seconds", "cpu_seconds": "CPU s", "peak_rss_mb": "memory at most, MB"}

Figures = dict[str, float]
Runs = dict[str, list[Figures]]
"""By contestant, in the order of the runs."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    says: str
    pipeline: str | None = None
    """The value of `--pipeline`, or None for the plain job."""

    def command(self, bootstrap: str, directory: Path) -> list[str]:
        jars = ",".join(map(str, spark_jars()))
        if self.pipeline is None:
            return [
                sys.executable,
                "-m",
                "tests.bench.spark.plain",
                bootstrap,
                _TOPIC,
                str(directory / "table"),
                jars,
            ]
        flags = {
            "--bootstrap-servers": bootstrap,
            "--topic": _TOPIC,
            "--tables": str(directory / "tables"),
            "--jars": jars,
            "--pipeline": self.pipeline,
            "--master": f"local[{CORES}]",
            "--shuffle-partitions": str(SHUFFLE_PARTITIONS),
            "--report": str(directory / "rows.json"),
        }
        words = [word for pair in flags.items() for word in pair if pair[1]]
        return [
            sys.executable,
            "-m",
            "kstorm_pipeline",
            "run",
            *words,
            f"--driver-java-options={short_run_options()}",
        ]


JOBS: Final = (
    Job(_PLAIN, "Kafka, from_json, append to one table"),
    Job("any-topic", "bronze and silver of a topic about which nothing is declared", ""),
    Job("word-count", "bronze, silver, quarantine and two gold tables", _WORD_COUNT),
)


def run_pipeline(records: int, rounds: int, report: Path | None) -> int:
    """Measure, print, and return 0. Raises `LocalError` if a job fails, `BrokerError` for Kafka."""
    console = Console()
    progress = Progress(console)
    directory = run_directory()
    progress.say(f"logs of this run: {directory}")
    runs: Runs = {job.name: [] for job in JOBS}
    try:
        progress.status("starting Kafka")
        with EmbeddedKafka(directory, heap="1g") as kafka:
            progress.status(f"producing {records:,} records")
            _fill(kafka.bootstrap, records)
            for number in range(1, rounds + 1):
                for job in JOBS:
                    progress.status(f"round {number} of {rounds}: {job.name}")
                    found = _measure(
                        job, kafka.bootstrap, directory / f"{job.name}-{number}", records
                    )
                    runs[job.name].append(found)
                    progress.say(f"round {number} of {rounds} · {job.name}: {_line(found)}")
    finally:
        progress.close()
        shutil.rmtree(directory / "kafka", ignore_errors=True)  # deletes the data but no logs
    _print(runs, records, console)
    if report is not None:
        content = {"machine": machine(), "records": records, "runs": runs, "ratios": _ratios(runs)}
        report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def _fill(bootstrap: str, records: int) -> None:
    """Produce the output of an exactly-once word count, in which each record has a unique id."""
    Broker(bootstrap).create_sink(_TOPIC)
    producer = BenchProducer(bootstrap, _TOPIC)
    counts: Counter[str] = Counter()
    # This is more words than required.
    sentences = corpus.texts(records // corpus.WORDS_PER_SENTENCE * 2)
    words = (
        (word, f"sentences-{number % PARTITIONS}-{number // PARTITIONS}-{position}")
        for number, sentence in enumerate(sentences)
        for position, word in enumerate(sentence.split())
    )
    for _, (word, ident) in zip(range(records), words, strict=False):
        counts[word] += 1
        record = {
            "word": word,
            "count": counts[word],
            "id": ident,
            "emitted_at": int(time.time() * 1000),
        }
        producer.put(json.dumps(record), word)
    producer.flush()


def _measure(job: Job, bootstrap: str, directory: Path, records: int) -> Figures:
    directory.mkdir()
    process = ManagedProcess(
        job.name,
        job.command(bootstrap, directory),
        workdir=directory,
        environment=spark_environment(),
    )
    began = time.monotonic()
    with ExitStack() as stack:
        process.start()
        stack.callback(process.stop)
        usage = stack.enter_context(Usage(process))
        code = process.wait(_LONGEST_SECS)
        seconds = time.monotonic() - began
    if code != 0:
        raise LocalError(
            f"{job.name} failed (exit code {code}); its log {process.log_path} ends with:\n{process.log_tail(5)}"
        )
    if job.pipeline is not None:
        _check(job, json.loads((directory / "rows.json").read_text())["rows"], records)
    for tables in ("table", "tables"):
        shutil.rmtree(directory / tables, ignore_errors=True)
    return {
        "seconds": seconds,
        "cpu_seconds": process.cpu_seconds(),
        "peak_rss_mb": usage.peak_rss / 2**20,
    }


def _check(job: Job, rows: dict[str, int], records: int) -> None:
    """Raise `LocalError` if the tables do not have every record once."""
    if (rows["bronze"], rows["silver"], rows["quarantine"]) != (records, records, 0):
        raise LocalError(f"{job.name} made {rows} of {records} records")


def _ratios(runs: Runs) -> dict[str, dict[str, list[float]]]:
    """Return the ratios of each contestant's figures to the plain job's in the same round."""
    return {
        name: {
            figure: [
                round(own[figure] / base[figure], 3)
                for own, base in zip(each, runs[_PLAIN], strict=True)
            ]
            for figure in _TITLES
        }
        for name, each in runs.items()
        if name != _PLAIN
    }


def _line(found: Figures) -> str:
    return " · ".join(f"{title} {found[name]:,.1f}" for name, title in _TITLES.items())


def _print(runs: Runs, records: int, console: Console) -> None:
    table = Table(
        title=f"{records:,} records, {CORES} cores; × to the plain job of the same round",
        title_justify="left",
        box=None,
    )
    table.add_column("", no_wrap=True)
    for title in ("min", "median", "max", "× min", "× median", "× max"):
        table.add_column(title, justify="right")
    ratios: dict[str, dict[str, list[float]]] = _ratios(runs)
    for job in JOBS:
        table.add_row(f"[bold]{job.name}[/bold]")
        for figure, title in _TITLES.items():
            cells = _cells([run[figure] for run in runs[job.name]], "{:,.1f}")
            more: Sequence[str] = (
                _cells(ratios[job.name][figure], "{:.2f}") if job.name in ratios else ()
            )
            table.add_row(f"  {title}", *cells, *more)
    console.print(table, highlight=False)
    for job in JOBS:
        console.print(f"{job.name}: {job.says}", highlight=False)


def _cells(values: Sequence[float], form: str) -> list[str]:
    found: Any = spread(values) or {}
    return [form.format(found[key]) for key in ("min", "median", "max")]
