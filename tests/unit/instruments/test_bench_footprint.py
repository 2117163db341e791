"""The footprint of processes is measured from outside."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from tests.bench.footprint import _idle, _table


def test_figures_of_a_process_and_their_sum() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        worker: Any = SimpleNamespace(name="sink-0", process=SimpleNamespace(pid=sleeper.pid))
        found = _idle([worker], {"sink-0": 1.25}, 0.01)
    finally:
        sleeper.kill()
        sleeper.communicate()
    figures = found["sink-0"]
    assert figures["start_cpu_s"] == 1.25
    assert figures["threads"] == 1
    assert figures["rss_mb"] > 1
    assert figures["wake_ups_per_s"] >= 0
    console = Console(width=120, record=True)
    console.print(_table({"sink-0": figures, "sink-1": figures}))
    assert "│ all     │ 2.50" in console.export_text()
