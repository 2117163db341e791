"""Plots each contestant's throughput over time, and the latency or cost per sentence."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kstorm.errors import ConfigError
from tests.bench.contest import BenchRun
from tests.bench.figures import BIN_SECS
from tests.bench.report import Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (12.0, 4.5)
_DOTS_PER_INCH: Final = 120
_CPU: Final = (("cpu_s_per_million", "itself"), ("broker_cpu_s_per_million", "the broker"))
_COUNTING: Final = (
    ("tuples_to_count", "tuples a sentence that travel to it"),
    ("count_cpu_s_per_million", "its CPU seconds per million sentences"),
    ("hottest_cpu_s_per_million", "of these the busiest process's"),
)


def check_installed() -> None:
    """Raise `ConfigError` if matplotlib is missing, before the runs and not after them."""
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib, which is not installed: install kstorm[bench]")


def plot(runs: Sequence[BenchRun], path: Path) -> None:
    """Write a PNG. Raises `ConfigError` if it cannot be written."""
    # Imported here, because matplotlib is optional.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counting = any("tuples_to_count" in run.figures for run in runs)
    figure = Figure(
        figsize=(_INCHES[0] * (1.5 if counting else 1), _INCHES[1]), layout="constrained"
    )
    FigureCanvasAgg(figure)
    left, right, *third = figure.subplots(1, 3 if counting else 2)
    colours = {
        name: f"C{number}"
        for number, name in enumerate(dict.fromkeys(run.contestant for run in runs))
    }
    _plot_throughput(left, runs, colours)
    if any(run.latencies_ms for run in runs):
        _plot_latency(right, runs, colours)
    else:
        _plot_cpu(right, runs)
    if counting:
        summary = {
            name: found for name, found in summarize(runs).items() if "tuples_to_count" in found
        }
        _plot_bars(third[0], summary, _COUNTING)
        third[0].set_title("counting (median, min to max)")
    try:
        figure.savefig(path, dpi=_DOTS_PER_INCH, format="png")
    except OSError as error:
        raise ConfigError(f"--plot {path}: {error.strerror}") from None


def _plot_throughput(axes: "Axes", runs: Sequence[BenchRun], colours: dict[str, str]) -> None:
    labelled: set[str] = set()
    for run in runs:
        times = [BIN_SECS * number for number in range(len(run.throughput))]
        # The legend omits labels that start with an underscore.
        label = "_" if run.contestant in labelled else run.contestant
        labelled.add(run.contestant)
        axes.plot(
            times,
            run.throughput,
            color=colours[run.contestant],
            label=label,
            linewidth=1.2,
            alpha=0.7,
        )
    axes.set_yscale("log")
    axes.set_title("throughput")
    axes.set_xlabel("seconds since its first count")
    axes.set_ylabel("sentences a second")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


def _plot_latency(axes: "Axes", runs: Sequence[BenchRun], colours: dict[str, str]) -> None:
    labelled: set[str] = set()
    for run in runs:
        if not run.latencies_ms:
            continue
        shares = [(number + 1) / len(run.latencies_ms) for number in range(len(run.latencies_ms))]
        label = "_" if run.contestant in labelled else run.contestant
        labelled.add(run.contestant)
        axes.plot(
            run.latencies_ms,
            shares,
            color=colours[run.contestant],
            label=label,
            linewidth=1.2,
            alpha=0.7,
        )
    axes.set_xscale("log")
    axes.set_title("latency, until the last count of a sentence")
    axes.set_xlabel("ms")
    axes.set_ylabel("share of sentences")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


def _plot_cpu(axes: "Axes", runs: Sequence[BenchRun]) -> None:
    summary = summarize(runs)
    # Use the whole run if known. In the steady window, a contestant that splits far ahead of its
    # counting would look too good.
    part = (
        "whole_"
        if all("whole_cpu_s_per_million" in figures for figures in summary.values())
        else ""
    )
    _plot_bars(axes, summary, [(part + figure, label) for figure, label in _CPU])
    axes.set_title("CPU seconds per million sentences (median, min to max)")


def _plot_bars(axes: "Axes", summary: Summary, wanted: Sequence[tuple[str, str]]) -> None:
    """Plot a group of bars per contestant, one per wanted figure with its label."""
    width = 0.8 / len(wanted)
    for number, (figure, label) in enumerate(wanted):
        found = [summary[name][figure] for name in summary]
        medians = [each["median"] for each in found]
        spans = [
            [each["median"] - each["min"] for each in found],
            [each["max"] - each["median"] for each in found],
        ]
        places = [place + (number - (len(wanted) - 1) / 2) * width for place in range(len(found))]
        bars = axes.bar(places, medians, width, yerr=spans, label=label, capsize=3)
        axes.bar_label(bars, fmt="%.3g", padding=2, fontsize="small")
    axes.set_yscale("log")
    axes.margins(y=0.35)  # room for the legend
    axes.set_xticks(range(len(summary)), list(summary))
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend()
