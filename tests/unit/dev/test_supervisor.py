"""A supervisor that restarts real processes."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kstorm.dev.processes import ManagedProcess
from kstorm.dev.supervisor import Supervisor
from kstorm.errors import LocalError

Eventually = Callable[[Callable[[], object]], None]

SLEEP = ["sleep", "600"]


def test_killed_process_is_restarted_after_the_delay(
    tmp_path: Path, eventually: Eventually
) -> None:
    with Supervisor(restart_delay=0.5) as supervisor:
        process = supervisor.add(ManagedProcess("it", SLEEP, workdir=tmp_path))
        killed = time.monotonic()
        process.kill()
        eventually(lambda: process.alive)
        assert time.monotonic() - killed >= 0.5
        assert process.starts == 2


def test_failing_process_is_restarted_without_limit(tmp_path: Path, eventually: Eventually) -> None:
    with Supervisor(restart_delay=0.01) as supervisor:
        process = supervisor.add(ManagedProcess("it", ["sh", "-c", "exit 1"], workdir=tmp_path))
        eventually(lambda: process.starts >= 4)


def test_stopped_process_is_not_restarted(tmp_path: Path, eventually: Eventually) -> None:
    """Another process that dies meanwhile is."""
    with Supervisor(restart_delay=0.05) as supervisor:
        stopped = supervisor.add(ManagedProcess("stopped", SLEEP, workdir=tmp_path))
        killed = supervisor.add(ManagedProcess("killed", SLEEP, workdir=tmp_path))
        stopped.stop()
        killed.kill()
        eventually(lambda: killed.starts == 2 and killed.alive)
        killed.kill()
        eventually(lambda: killed.starts == 3)
        assert not stopped.alive
        assert stopped.starts == 1


def test_removed_process_is_stopped_and_forgotten(tmp_path: Path) -> None:
    """This is scaling down. The process gets SIGTERM and leaves the list."""
    with Supervisor() as supervisor:
        first = supervisor.add(ManagedProcess("first", SLEEP, workdir=tmp_path))
        second = supervisor.add(ManagedProcess("second", SLEEP, workdir=tmp_path))
        supervisor.remove(first)
        assert not first.alive
        assert second.alive
        assert supervisor.processes == [second]


def test_stop_ends_all_processes_in_parallel(tmp_path: Path) -> None:
    """Three processes that ignore SIGTERM take one timeout together.

    A stopped supervisor accepts no process.
    """
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    supervisor = Supervisor(restart_delay=0.01)
    processes = [
        supervisor.add(
            ManagedProcess(f"p{number}", [sys.executable, "-S", "-c", ignore], workdir=tmp_path)
        )
        for number in range(3)
    ]
    began = time.monotonic()
    supervisor.stop(timeout=2)
    assert time.monotonic() - began < 5
    assert not any(process.alive for process in processes)
    with pytest.raises(LocalError, match="cannot add p0: this supervisor has been stopped"):
        supervisor.add(processes[0])
