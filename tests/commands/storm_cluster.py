"""A real Storm in one process, for tests of moving from it.

`STORM_LIBS` names a folder with the jars of storm-server and storm-kafka-client and their
dependencies. `PYSTORM_PYTHON` names an interpreter that has pystorm. Java and javac are on PATH.
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

_SOURCE = Path(__file__).with_name("StormWordCount.java")


def needed() -> tuple[str, str]:
    """Return the folder of the jars and the interpreter. Skip the test if something is missing."""
    libs = os.environ.get("STORM_LIBS", "")
    if not any(Path(libs).glob("storm-server-*.jar")) if libs else True:
        pytest.skip("STORM_LIBS does not name a folder with Storm's jars")
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    python = os.environ.get("PYSTORM_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import pystorm"], cwd="/", capture_output=True).returncode:
        pytest.skip("PYSTORM_PYTHON does not name an interpreter that has pystorm")
    return libs, python


class Storm:
    """A running `StormWordCount`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def kill(self) -> None:
        """Kill the process and its programs at once, without any cleanup."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def running_storm(bootstrap: str, programs: Path, folder: Path) -> Iterator[Storm]:
    """Compile and start the topology. Its log is `storm.log` in `folder`."""
    libs, python = needed()
    classes = folder / "classes"
    subprocess.run(
        ["javac", "-cp", f"{libs}/*", "-d", str(classes), str(_SOURCE)], check=True, timeout=300
    )
    with (
        (folder / "storm.log").open("wb") as log,
        subprocess.Popen(
            [
                *("java", "-Xmx768m", "-cp", f"{libs}/*:{classes}", "StormWordCount"),
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
