"""The reasons why a process of a run on this machine does not answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kstorm.introspection.outline import Outline
from kstorm.runtime import local_silence
from kstorm.runtime.local_silence import why_silent
from kstorm.runtime.run_files import RunningTopology, RunningWorker

STARTED = "--- sink-0, start {}: python -m kstorm_bolt\n"
LOGIN = "Kafka refuses the login: check sasl.password"
REFUSAL = f"kstorm-bolt: {LOGIN}\n"
DISK = "partition 3 cannot be stored: No space left on device"
FATAL = f'{{"service": "bolt", "error": "{DISK}", "event": "fatal"}}\n'


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process with the name of the worker."""
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(words, env={**os.environ, "KSTORM_INSTANCE": "sink-0"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(tmp_path: Path, log: str) -> str:
    file = tmp_path / "sink-0.log"
    file.write_text(log)
    worker = RunningWorker("sink-0", "sink", "http://127.0.0.1:1", str(file))
    run = RunningTopology(Outline("words"), os.getpid(), "kafka:9092", "zookeeper:2181", [worker])
    return why_silent(run, worker)


def test_paused_process_is_named_with_the_remedy(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    process = psutil.Process(child.pid)
    while process.status() != psutil.STATUS_STOPPED:
        pass
    found = said(tmp_path, STARTED.format(1) + "{}\n")
    assert found == f"is paused by SIGSTOP; `kill -CONT {child.pid}` continues it"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (STARTED.format(1), "is starting"),
        (STARTED.format(1) + "{}\n" + STARTED.format(2) + "{}\n", "is starting"),
        (STARTED.format(1) + REFUSAL + STARTED.format(2), f"is starting again after an error: {LOGIN}"),
        (STARTED.format(1) + FATAL + STARTED.format(2) + "{}\n", f"is starting again after an error: {DISK}"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("child")
def test_log_of_a_starting_process_tells_why(tmp_path: Path, log: str, reason: str) -> None:
    """Between two starts that fail, the reason is that of the earlier one."""
    assert said(tmp_path, log) == reason


@pytest.mark.usefixtures("child")
def test_process_that_hangs_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error that ended an earlier process is not its own."""
    monkeypatch.setattr(local_silence, "_START_SECS", 0.0)
    log = STARTED.format(1) + FATAL + STARTED.format(2) + "{}\n"
    assert said(tmp_path, log) == "does not answer"


def test_ended_process_is_named_with_its_error(tmp_path: Path) -> None:
    assert said(tmp_path, STARTED.format(1) + "{}\n") == "has ended"
    found = said(tmp_path, STARTED.format(1) + "{}\n" + STARTED.format(2) + REFUSAL)
    assert found == f"has ended: {LOGIN}"
    assert said(tmp_path, STARTED.format(1) + "{}\n" + FATAL) == f"has ended: {DISK}"


def test_run_without_logs_tells_nothing() -> None:
    worker = RunningWorker("sink-0", "sink", "http://127.0.0.1:1")
    run = RunningTopology(Outline("words"), os.getpid(), "kafka:9092", "zookeeper:2181", [worker])
    assert why_silent(run, worker) == "does not answer"
