"""`./run bench` as a user starts it, with few sentences.

All results must be present. Their values are not checked.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import started

FIGURES = {
    *("sentences_per_s", "whole_sentences_per_s", "cpu_s_per_million", "whole_cpu_s_per_million"),
    *("broker_cpu_s_per_million", "whole_broker_cpu_s_per_million", "peak_rss_mb"),
}
LONG = 240


@pytest.mark.slow
@pytest.mark.timeout(LONG + 60)
def test_kstorm_next_to_a_loop(tmp_path: Path) -> None:
    """Both count correctly. The report has all measurements, and kstorm's ratios."""
    path = tmp_path / "report.json"
    options = ["--rounds", 1, "--sentences", 30_000, "--only", "loop,kstorm", "--report", path]
    with started("tests.bench", *options, home=tmp_path) as bench:
        assert bench.process.wait(LONG) == 0, bench.said
    report: dict[str, Any] = json.loads(path.read_text())
    assert [run["contestant"] for run in report["runs"]] == ["loop", "kstorm", "loop"]
    for run in report["runs"]:
        assert run["correct"], bench.said
        assert run["sentences"] == 30_000
        for figure in FIGURES:
            assert run[figure] > 0, (figure, bench.said)
    assert report["runs"][1]["ratios"].keys() == FIGURES
    assert set(report["summary"]) == {"loop", "kstorm"}


@pytest.mark.long
@pytest.mark.timeout(LONG + 60)
def test_trident_next_to_the_same_topology_by_hand(tmp_path: Path) -> None:
    """All three count a skewed corpus correctly, and combining reduces the number of tuples."""
    path = tmp_path / "report.json"
    names = "by-hand,trident,trident-uncombined"
    options = [
        "--rounds",
        1,
        "--sentences",
        20_000,
        "--only",
        names,
        "--skew",
        0.5,
        "--report",
        path,
    ]
    with started("tests.bench", *options, home=tmp_path) as bench:
        assert bench.process.wait(LONG) == 0, bench.said
    report: dict[str, Any] = json.loads(path.read_text())
    runs = {run["contestant"]: run for run in report["runs"]}
    assert [run["contestant"] for run in report["runs"]] == [
        *("by-hand", "trident", "by-hand", "trident-uncombined", "by-hand")
    ]
    assert all(run["correct"] and not run["over"] for run in report["runs"]), bench.said
    words = runs["by-hand"]["tuples_to_count"]
    assert runs["trident-uncombined"]["tuples_to_count"] == words
    assert runs["trident"]["tuples_to_count"] < words / 2


@pytest.mark.long
@pytest.mark.timeout(LONG + 60)
def test_cost_of_a_message_for_the_spout(tmp_path: Path) -> None:
    """The parts add up to the whole, for tracked and untracked messages."""
    path = tmp_path / "report.json"
    options = ["--messages", 60_000, "--rounds", 1, "--report", path]
    with started("tests.bench", "spout", *options, home=tmp_path) as bench:
        assert bench.process.wait(LONG) == 0, bench.said
    report: dict[str, Any] = json.loads(path.read_text())
    assert set(report["runs"]) == {"tracked", "untracked"}
    for (run,) in report["runs"].values():
        whole = run.pop("process")
        assert whole > 0
        assert sum(run.values()) == pytest.approx(whole)
        assert run.keys() == {"librdkafka_threads", "consume", "take", "emit", "rest"}
        assert all(run[part] > 0 for part in ("consume", "take", "emit")), bench.said
