"""`./run bench` as a user starts it, with few sentences: the figures are there, whatever they are."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FIGURES = {
    *("sentences_per_s", "whole_sentences_per_s", "cpu_s_per_million", "whole_cpu_s_per_million"),
    *("broker_cpu_s_per_million", "whole_broker_cpu_s_per_million", "peak_rss_mb"),
}
ROOT = Path(__file__).parents[2]
LONG = 240


@contextmanager
def started(*arguments: object, home: Path) -> Iterator["subprocess.Popen[str]"]:
    """The benchmark, in a process group of its own, as a shell would start it; ended at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "kstorm.local.bench", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"KSTORM_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


@pytest.mark.timeout(LONG + 60)
def test_kstorm_beside_a_loop(tmp_path: Path) -> None:
    """Both count correctly, every figure is found out, and kstorm's ratios are there."""
    path = tmp_path / "report.json"
    options = ["--rounds", 1, "--sentences", 3000, "--only", "loop,kstorm", "--report", path]
    with started(*options, home=tmp_path) as process:
        said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    report: dict[str, Any] = json.loads(path.read_text())
    assert [run["contestant"] for run in report["runs"]] == ["loop", "kstorm", "loop"]
    for run in report["runs"]:
        assert run["correct"], said
        assert run["sentences"] == 3000
        for figure in FIGURES:
            assert run[figure] > 0, (figure, said)
    assert report["runs"][1]["ratios"].keys() == FIGURES
    assert set(report["summary"]) == {"loop", "kstorm"}


@pytest.mark.timeout(LONG + 60)
def test_what_a_message_costs_the_spout(tmp_path: Path) -> None:
    """Tracked and untracked, in parts that add up to the whole."""
    path = tmp_path / "report.json"
    with started("spout", "--messages", 60_000, "--rounds", 1, "--report", path, home=tmp_path) as process:
        said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    report: dict[str, Any] = json.loads(path.read_text())
    assert set(report["runs"]) == {"tracked", "untracked"}
    for (run,) in report["runs"].values():
        whole = run.pop("process")
        assert whole > 0
        assert sum(run.values()) == pytest.approx(whole)
        assert run.keys() == {"librdkafka_threads", "consume", "take", "emit", "rest"}
        assert all(run[part] > 0 for part in ("consume", "take", "emit")), said
