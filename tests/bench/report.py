"""The result of a benchmark: JSON for programs, and a table for people."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import confluent_kafka
import psutil
from rich.console import Console
from rich.table import Table

from kstorm.dev.jars import KAFKA_VERSION
from tests.bench.contest import BenchRun
from tests.bench.figures import spread

_TITLES: Final = {
    "sentences_per_s": "sentences a second",
    "cpu_s_per_million": "CPU s per million",
    "broker_cpu_s_per_million": "the broker's CPU s",
    "whole_sentences_per_s": "a second, whole run",
    "whole_cpu_s_per_million": "CPU s, whole run",
    "whole_broker_cpu_s_per_million": "the broker's, whole",
    "peak_rss_mb": "memory at most, MB",
    "p50_ms": "latency p50, ms",
    "p99_ms": "latency p99, ms",
    "max_ms": "latency max, ms",
    "tuples_to_count": "tuples to count",
    "frames_to_count": "its frames of 1,000",
    "count_cpu_s_per_million": "its CPU s",
    "hottest_share": "hottest: tuples",
    "hottest_cpu_s_per_million": "hottest: CPU s",
    "hottest_busy": "hottest: busy",
}
_RATIO: Final = "_ratio"
_ORDER: Final = ("min", "median", "max")

Summary = dict[str, dict[str, dict[str, float]]]
"""`min`, `median` and `max` by contestant and figure. `<name>_ratio` is the ratio to the base."""


def summarize(runs: Sequence[BenchRun]) -> Summary:
    """Summarize the runs of each contestant in order of appearance. Unknown figures are omitted."""
    summary: Summary = {}
    for name in dict.fromkeys(run.contestant for run in runs):
        own = [run for run in runs if run.contestant == name]
        values: dict[str, list[float]] = {}
        for run in own:
            named = {
                **run.figures,
                **{f"{figure}{_RATIO}": ratio for figure, ratio in run.ratios.items()},
            }
            for figure, value in named.items():
                if value is not None:
                    values.setdefault(figure, []).append(value)
        summary[name] = {
            figure: found for figure, each in values.items() if (found := spread(each)) is not None
        }
    return summary


def to_json(runs: Sequence[BenchRun], rounds: int, rate: float | None) -> dict[str, Any]:
    """Return the report's content. `rate` is in sentences per second, None for unlimited."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rounds": rounds,
        "rate": rate,
        "runs": [_run_json(run) for run in runs],
        "summary": {
            name: {
                figure: {key: _rounded(value) for key, value in found.items()}
                for figure, found in figures.items()
            }
            for name, figures in summarize(runs).items()
        },
    }


def machine() -> dict[str, Any]:
    """Describe the machine and the versions."""
    return {
        "cpus": len(psutil.Process().cpu_affinity())
        if hasattr(psutil.Process, "cpu_affinity")
        else os.cpu_count(),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "system": platform.platform(),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "librdkafka": confluent_kafka.libversion()[0],
        "kstorm": version("kstorm"),
        "faust": version("faust-streaming"),
    }


def faults(runs: Sequence[BenchRun]) -> list[str]:
    """Return a sentence for each run with wrong counts."""
    return [
        f"{run.contestant}, run {number}: {run.verdict.short:,} words are counted short,"
        f" {run.verdict.strange:,} records are strange"
        for number, run in enumerate(runs, 1)
        if run.correct is False
    ]


def outcome_line(run: BenchRun) -> str:
    parts = [
        f"{title} {_shown(value)}"
        for name, title in _TITLES.items()
        if (value := run.figures.get(name)) is not None
    ]
    return f"{run.contestant}: {' · '.join(parts)} · {_correctness(run)}"


def print_table(runs: Sequence[BenchRun], console: Console) -> None:
    """Print each contestant's figures, and after × their ratios to the base's."""
    # The table fits into 80 columns.
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for title in (*_ORDER, *(f"× {key}" for key in _ORDER)):
        table.add_column(title, justify="right", no_wrap=True)
    for name, figures in summarize(runs).items():
        own = [run for run in runs if run.contestant == name]
        table.add_row(f"[bold]{name}[/bold]")
        for figure in filter(figures.__contains__, _TITLES):
            ratio = figures.get(f"{figure}{_RATIO}", {})
            cells = [
                _shown(each[key]) if key in each else ""
                for each in (figures[figure], ratio)
                for key in _ORDER
            ]
            table.add_row(f"  {_TITLES[figure]}", *cells)
        over = spread(run.verdict.over for run in own) or {}
        table.add_row(
            f"  over ({_correctness_of_all(own)})",
            *(_shown(over[key]) for key in over),
            end_section=True,
        )
    console.print(table, highlight=False)


def _correctness_of_all(runs: Sequence[BenchRun]) -> str:
    wrong = sum(run.correct is False for run in runs)
    slow = sum(run.correct is None for run in runs)
    says = [f"{wrong} WRONG"] * bool(wrong) + [f"{slow} too slow"] * bool(slow)
    return ", ".join(says) or "all correct"


def _correctness(run: BenchRun) -> str:
    if run.correct is None:
        return "the rate was too much for it"
    return ("correct" if run.correct else "WRONG") + (
        f", over by {run.verdict.over:,}" if run.verdict.over else ""
    )


def _run_json(run: BenchRun) -> dict[str, Any]:
    return {
        "contestant": run.contestant,
        "sentences": run.sentences,
        "correct": run.correct,
        "over": run.verdict.over,
        "short": run.verdict.short,
        "strange": run.verdict.strange,
        **{name: None if value is None else _rounded(value) for name, value in run.figures.items()},
        "ratios": {name: _rounded(value) for name, value in run.ratios.items()},
        "throughput": [round(value, 1) for value in run.throughput],
    }


def _rounded(value: float) -> float:
    """Round to four digits. More would only be noise."""
    return float(f"{value:.4g}")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"
