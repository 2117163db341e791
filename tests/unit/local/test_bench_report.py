"""The benchmark's report, its table, and its picture."""

import argparse
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from kstorm.errors import ConfigError
from tests.bench.contest import Run
from tests.bench.options import BenchOptions, add_options, options_of
from tests.bench.output import Verdict
from tests.bench.plot import plot
from tests.bench.report import faults, outcome_line, print_table, summarize, to_json
from tests.bench.rounds import with_ratios
from tests.bench.short import run_short


def run_of(
    contestant: str, speed: float, correct: bool | None = True, latencies: tuple[float, ...] = ()
) -> Run:
    """A run with every figure that runs without a rate have."""
    figures: dict[str, float | None] = {
        "sentences_per_s": speed,
        "cpu_s_per_million": 1e6 / speed,
        "broker_cpu_s_per_million": 10.0,
        "whole_sentences_per_s": speed,
        "whole_cpu_s_per_million": 1e6 / speed,
        "whole_broker_cpu_s_per_million": 11.0,
        "peak_rss_mb": 50.0,
    }
    if latencies:
        figures |= {"p50_ms": latencies[0], "p99_ms": None}
    short = 2 if correct is False else 0
    return Run(contestant, 10, figures, correct, Verdict(short, 3, 0), [speed, speed], latencies)


RUNS = with_ratios(
    [run_of("loop", 1000), run_of("kstorm", 500), run_of("loop", 3000), run_of("kstorm", 800)]
)


def table_of(runs: list[Run]) -> str:
    """What is printed, on 80 columns."""
    out = io.StringIO()
    print_table(runs, Console(file=out, width=80))
    return out.getvalue()


def test_the_summary_spreads_figures_and_ratios_over_the_runs() -> None:
    """The last run has no base after it, so it has figures and no ratios."""
    summary = summarize(RUNS)
    assert summary["loop"]["sentences_per_s"] == {"min": 1000, "median": 2000, "max": 3000}
    assert summary["kstorm"]["sentences_per_s"] == {"min": 500, "median": 650, "max": 800}
    assert summary["kstorm"]["sentences_per_s_ratio"] == {"min": 0.25, "median": 0.25, "max": 0.25}
    assert "sentences_per_s_ratio" not in summary["loop"]


def test_a_figure_that_no_run_has_is_left_out_of_the_summary() -> None:
    """Such as latencies of a contestant for which the rate was too much."""
    assert "p99_ms" not in summarize([run_of("loop", 5, latencies=(1.5,))])["loop"]


def test_the_report_has_what_programs_rely_on() -> None:
    """And all of it is JSON."""
    report = json.loads(json.dumps(to_json(RUNS, 2, None)))
    assert set(report) == {"date", "machine", "rounds", "rate", "runs", "summary"}
    assert {"cpus", "python", "kafka"} <= set(report["machine"])
    assert [run["contestant"] for run in report["runs"]] == ["loop", "kstorm", "loop", "kstorm"]
    first = report["runs"][1]
    assert (first["sentences"], first["correct"], first["over"], first["sentences_per_s"]) == (
        10,
        True,
        3,
        500,
    )
    assert first["ratios"]["sentences_per_s"] == 0.25
    assert set(report["summary"]["kstorm"]["peak_rss_mb"]) == {"min", "median", "max"}


def test_only_wrong_counts_are_faults() -> None:
    """A rate that was too much is none."""
    assert faults([*RUNS, run_of("faust", 5, correct=None)]) == []
    (fault,) = faults([*RUNS, run_of("faust", 5, correct=False)])
    assert fault.startswith("faust, run 5: 2 words are counted short")


def test_the_table_has_every_figure_within_80_columns() -> None:
    """Nothing is cut off."""
    shown = table_of(
        [*RUNS, run_of("faust", 5, correct=False), run_of("kstorm-untracked", 123456, correct=None)]
    )
    for text in (
        "faust",
        "over (1 WRONG)",
        "over (1 too slow)",
        "sentences a second",
        "memory at most, MB",
        "123,456",
    ):
        assert text in shown
    assert "…" not in shown
    assert "0.25" in shown


def test_a_run_fits_into_a_line() -> None:
    """With its name, its figures, and whether it is correct."""
    assert outcome_line(run_of("faust", 500)).startswith(
        "faust: sentences a second 500 · CPU s per million 2,000 · "
    )
    assert outcome_line(run_of("faust", 500)).endswith("correct, over by 3")
    assert outcome_line(run_of("faust", 500, correct=False)).endswith("WRONG, over by 3")


@pytest.mark.parametrize("latencies", [(), (1.0, 2.0, 30.0)])
def test_the_picture_is_a_png(tmp_path: Path, latencies: tuple[float, ...]) -> None:
    """With bars of CPU seconds, or with latencies if there was a rate."""
    path = tmp_path / "bench.png"
    plot([run_of("loop", 1000, latencies=latencies), run_of("kstorm", 500)], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written_is_named_before_anything_runs(tmp_path: Path) -> None:
    """It would be a pity after ten minutes."""
    with pytest.raises(ConfigError, match=r"--plot .*give a file in a folder that exists"):
        run_short(BenchOptions(plot=tmp_path / "none" / "bench.png"))
    with pytest.raises(ConfigError, match="--report"):
        run_short(BenchOptions(report=tmp_path))


def parsed(*arguments: str) -> BenchOptions:
    """The options of a command line."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return options_of(parser.parse_args(arguments))


def test_the_command_line_becomes_options() -> None:
    """Without any, the defaults."""
    assert parsed() == BenchOptions()
    assert parsed(
        "--rounds", "1", "--sentences", "3,000", "--rate", "250", "--only", "loop"
    ) == BenchOptions(rounds=1, sentences=3000, rate=250.0, only="loop")


@pytest.mark.parametrize(
    "wrong", [("--rounds", "0"), ("--sentences", "many"), ("--rate", "-1"), ("--rate", "nan")]
)
def test_a_wrong_argument_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By argparse, in the last line."""
    with pytest.raises(SystemExit, match="2"):
        parsed(*wrong)
    assert f"argument {wrong[0]}: '{wrong[1]}' is not" in capsys.readouterr().err.splitlines()[-1]
