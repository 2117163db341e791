"""The file by which the web UI finds the runs on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from examples.diamond import build
from kstorm.introspection.outline_builder import outline_of
from kstorm.runtime import run_files


def test_run_file_describes_the_topology(tmp_path: Path) -> None:
    """The run's folder and the folder of all runs both work.

    The file has components, subscriptions and the address of each process.
    """
    worker = run_files.RunningWorker("split-0", "split", "http://127.0.0.1:1")
    topology = build("words", "in", "out")
    run_files.write(
        tmp_path / "run", run_files.describe(topology, "kafka:1", "zookeeper:2", [worker])
    )
    for place in (tmp_path, tmp_path / "run"):
        [found] = run_files.find(place)
        assert (found.pid, list(found.workers)) == (os.getpid(), [worker])
        assert found.topology == outline_of(topology)
    run_files.remove(tmp_path / "run")
    assert list(run_files.find(tmp_path)) == []


def test_file_of_a_killed_run_is_ignored(tmp_path: Path) -> None:
    """Invalid files are ignored too."""
    run_files.write(tmp_path, run_files.describe(build("words", "in", "out"), "", "", []))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    text = json.loads((tmp_path / run_files.FILE).read_text())
    (tmp_path / run_files.FILE).write_text(json.dumps({**text, "pid": dead.pid}))
    assert list(run_files.find(tmp_path)) == []
    (tmp_path / run_files.FILE).write_text("{")
    assert list(run_files.find(tmp_path)) == []
