"""A real Storm in one process, for tests of moving from it.

`PYSTORM_PYTHON` names an interpreter that has pystorm. Java and javac are on PATH. The jars are
those of the benchmarks; they are fetched once.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kstorm.dev.jars import jars_of

_STORM_JARS = Path(__file__).parents[1] / "bench" / "java" / "storm-2.8.3.sha256"
_SOURCE = Path(__file__).with_name("StormWordCount.java")


def needed() -> tuple[str, str]:
    """Return the class path of Storm and the interpreter. Skip the test if something is missing."""
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    python = os.environ.get("PYSTORM_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import pystorm"], cwd="/", capture_output=True).returncode:
        pytest.skip("PYSTORM_PYTHON does not name an interpreter that has pystorm")
    return os.pathsep.join(map(str, jars_of(_STORM_JARS))), python


class Storm:
    """A running `StormWordCount`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and its programs."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.process.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Kill the process and its programs at once, without any cleanup."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def running_storm(bootstrap: str, programs: Path, folder: Path) -> Iterator[Storm]:
    """Compile and start the topology. Its log is `storm.log` in `folder`."""
    jars, python = needed()
    classes = folder / "classes"
    subprocess.run(
        ["javac", "-cp", jars, "-d", str(classes), str(_SOURCE)], check=True, timeout=300
    )
    with (
        (folder / "storm.log").open("wb") as log,
        subprocess.Popen(
            [
                *("java", "-Xmx768m", "-cp", f"{jars}:{classes}", "StormWordCount"),
                *(bootstrap, python, str(programs)),
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        storm = Storm(process)
        try:
            yield storm
        finally:
            storm.kill()
