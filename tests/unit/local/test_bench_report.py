"""The benchmark's report, its table and its plot."""

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
    """Return a run with all results of runs without a rate."""
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
    """Return the printed table, with 80 columns."""
    out = io.StringIO()
    print_table(runs, Console(file=out, width=80))
    return out.getvalue()


def test_summary_has_the_spread_of_results_and_ratios() -> None:
    """The last run has no base run after it, so it has no ratios."""
    summary = summarize(RUNS)
    assert summary["loop"]["sentences_per_s"] == {"min": 1000, "median": 2000, "max": 3000}
    assert summary["kstorm"]["sentences_per_s"] == {"min": 500, "median": 650, "max": 800}
    assert summary["kstorm"]["sentences_per_s_ratio"] == {"min": 0.25, "median": 0.25, "max": 0.25}
    assert "sentences_per_s_ratio" not in summary["loop"]


def test_missing_result_is_left_out_of_the_summary() -> None:
    """An example is the latency of a contestant that could not keep up with the rate."""
    assert "p99_ms" not in summarize([run_of("loop", 5, latencies=(1.5,))])["loop"]


def test_report_has_a_stable_json_format() -> None:
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
    """A rate that is too high is not a fault."""
    assert faults([*RUNS, run_of("faust", 5, correct=None)]) == []
    (fault,) = faults([*RUNS, run_of("faust", 5, correct=False)])
    assert fault.startswith("faust, run 5: 2 words are counted short")


def test_table_has_all_results_within_80_columns() -> None:
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


def test_run_fits_on_one_line() -> None:
    """The line has the name, the results, and the verdict."""
    assert outcome_line(run_of("faust", 500)).startswith(
        "faust: sentences a second 500 · CPU s per million 2,000 · "
    )
    assert outcome_line(run_of("faust", 500)).endswith("correct, over by 3")
    assert outcome_line(run_of("faust", 500, correct=False)).endswith("WRONG, over by 3")


@pytest.mark.parametrize("latencies", [(), (1.0, 2.0, 30.0)])
def test_plot_is_a_png(tmp_path: Path, latencies: tuple[float, ...]) -> None:
    """It has bars of CPU seconds, or latencies if there was a rate."""
    path = tmp_path / "bench.png"
    plot([run_of("loop", 1000, latencies=latencies), run_of("kstorm", 500)], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_unwritable_file_is_rejected_before_the_run(tmp_path: Path) -> None:
    """Otherwise ten minutes of work would be lost."""
    with pytest.raises(ConfigError, match=r"--plot .*give a file in a folder that exists"):
        run_short(BenchOptions(plot=tmp_path / "none" / "bench.png"))
    with pytest.raises(ConfigError, match="--report"):
        run_short(BenchOptions(report=tmp_path))


def parsed(*arguments: str) -> BenchOptions:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return options_of(parser.parse_args(arguments))


def test_command_line_sets_options() -> None:
    """Without arguments all options have their defaults."""
    assert parsed() == BenchOptions()
    assert parsed(
        "--rounds", "1", "--sentences", "3,000", "--rate", "250", "--only", "loop"
    ) == BenchOptions(rounds=1, sentences=3000, rate=250.0, only="loop")


@pytest.mark.parametrize(
    "wrong", [("--rounds", "0"), ("--sentences", "many"), ("--rate", "-1"), ("--rate", "nan")]
)
def test_wrong_argument_is_named(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """argparse names it on the last line."""
    with pytest.raises(SystemExit, match="2"):
        parsed(*wrong)
    assert f"argument {wrong[0]}: '{wrong[1]}' is not" in capsys.readouterr().err.splitlines()[-1]
