"""The short benchmark: starts Kafka, runs all contestants in turn, and reports the figures."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from kstorm.dev.paths import run_directory
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import ConfigError
from tests.bench.contest import BenchRun, Contest
from tests.bench.contestants import BASE, Contestant, choose
from tests.bench.options import BenchOptions
from tests.bench.plot import check_installed, plot
from tests.bench.progress import Progress
from tests.bench.report import faults, outcome_line, print_table, to_json
from tests.bench.rounds import schedule, with_ratios

_HEAP: Final = "1g"


def run_short(options: BenchOptions) -> int:
    """Run it. The exit code is 0, or 1 if a contestant's counts are wrong.

    Raises `ConfigError` for unusable options, `LocalError` if a contestant dies, `BrokerError` for
    Kafka.
    """
    contestants = choose(options.only)
    (warm_up,) = choose(BASE)
    _check_rate(options, contestants)
    _check_files(options)
    console = Console()
    progress = Progress(console)
    directory = run_directory()
    progress.say(f"logs of this run: {directory}")
    runs: list[BenchRun] = []
    try:
        progress.status("starting Kafka")
        with EmbeddedKafka(directory, heap=_HEAP) as kafka:
            contest = Contest(kafka, directory, progress, options.skew)
            plan = schedule(contestants, options.rounds)
            progress.status("warming the broker up")
            contest.run(warm_up, options.asked_sentences, None)
            for number, contestant in enumerate(plan, 1):
                progress.status(f"run {number} of {len(plan)}: {contestant.name}")
                run = contest.run(
                    contestant, contestant.sentences(options.asked_sentences), options.rate
                )
                runs.append(run)
                progress.say(f"{number} of {len(plan)} · {outcome_line(run)}")
    finally:
        progress.close()
        shutil.rmtree(directory / "kafka", ignore_errors=True)  # deletes the data but no logs
    return _finish(options, with_ratios(runs), console)


def _finish(options: BenchOptions, runs: list[BenchRun], console: Console) -> int:
    console.print()
    print_table(runs, console)
    if options.report is not None:
        _write_json(options.report, to_json(runs, options.rounds, options.rate))
    if options.plot is not None:
        plot(runs, options.plot)
    found = faults(runs)
    for fault in found:
        console.print(f"WRONG: {fault}.", style="bold red", markup=False, highlight=False)
    return 1 if found else 0


def _check_rate(options: BenchOptions, contestants: Sequence[Contestant]) -> None:
    for contestant in contestants:
        if contestant.is_by_batch and options.rate is not None:
            raise ConfigError(
                f"--rate: the records of {contestant.name} do not say of which sentence they are, so it has no latency"
            )


def _check_files(options: BenchOptions) -> None:
    for name, path in (("--report", options.report), ("--plot", options.plot)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise ConfigError(f"{name} {path}: give a file in a folder that exists")
    if options.plot is not None:
        check_installed()


def _write_json(path: Path, content: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--report {path}: {error.strerror}") from None
