"""The file by which the page finds what runs on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from examples.diamond import build
from kstorm.introspection.outline_builder import outline_of
from kstorm.runtime import running


def test_what_runs_is_found_with_its_shape(tmp_path: Path) -> None:
    """In the run's folder, or in the folder of all runs: components, who reads whom and how, and where each process answers."""
    worker = running.RunningWorker("split-0", "split", "http://127.0.0.1:1")
    topology = build("words", "in", "out")
    running.write(tmp_path / "run", running.describe(topology, "kafka:1", "zookeeper:2", [worker]))
    for place in (tmp_path, tmp_path / "run"):
        [found] = running.find(place)
        assert (found.pid, list(found.workers)) == (os.getpid(), [worker])
        assert found.topology == outline_of(topology)
    running.remove(tmp_path / "run")
    assert list(running.find(tmp_path)) == []


def test_what_a_killed_run_left_runs_no_more(tmp_path: Path) -> None:
    """Nor does what is no such file."""
    running.write(tmp_path, running.describe(build("words", "in", "out"), "", "", []))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    text = json.loads((tmp_path / running.FILE).read_text())
    (tmp_path / running.FILE).write_text(json.dumps({**text, "pid": dead.pid}))
    assert list(running.find(tmp_path)) == []
    (tmp_path / running.FILE).write_text("{")
    assert list(running.find(tmp_path)) == []
