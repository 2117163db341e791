"""A managed process, with real children."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kstorm import die_with_parent
from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError

Eventually = Callable[[Callable[[], object]], None]

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]
WITH_CHILD = ["sh", "-c", "sleep 600 & echo $!; echo up; wait"]


def started(tmp_path: Path, eventually: Eventually, command: list[str]) -> ManagedProcess:
    """Start a command and wait for its first output."""
    process = ManagedProcess("it", command, workdir=tmp_path)
    process.start()
    eventually(lambda: "\nup\n" in process.log_tail())
    return process


def gone(pid: int) -> bool:
    """True if a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    """Both streams go to the log, after a line with the command."""
    process = ManagedProcess("it", ["sh", "-c", "echo out; echo err >&2; exit 3"], workdir=tmp_path)
    assert (process.alive, process.returncode, process.log_tail()) == (False, None, "")
    process.start()
    assert process.wait(20) == 3
    assert not process.alive
    assert process.log_tail().splitlines() == [
        "--- it, start 1: sh -c 'echo out; echo err >&2; exit 3'",
        "out",
        "err",
    ]
    assert process.log_tail(1) == "err\n"


def test_environment_extends_that_of_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "a")
    process = ManagedProcess(
        "it", ["sh", "-c", "echo $INHERITED$OWN"], workdir=tmp_path, environment={"OWN": "b"}
    )
    process.start()
    assert process.wait(20) == 0
    assert process.log_tail(1) == "ab\n"


def test_stop_sends_sigterm_first(tmp_path: Path, eventually: Eventually) -> None:
    """A second stop does nothing."""
    process = started(tmp_path, eventually, SLEEP)
    process.stop()
    process.stop()
    assert process.returncode == -signal.SIGTERM
    assert not process.wanted


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path, eventually: Eventually) -> None:
    """SIGKILL follows after the timeout."""
    process = started(tmp_path, eventually, STUBBORN)
    process.stop(timeout=0.2)
    assert process.returncode == -signal.SIGKILL


def test_stop_reaches_a_paused_process(tmp_path: Path, eventually: Eventually) -> None:
    """A paused process cannot receive SIGTERM, so it is resumed first."""
    process = started(tmp_path, eventually, SLEEP)
    process.pause()
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    assert process.alive
    process.stop()
    assert process.returncode == -signal.SIGTERM


def test_resume_continues_a_paused_process(tmp_path: Path, eventually: Eventually) -> None:
    process = started(tmp_path, eventually, SLEEP)
    process.pause()
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    process.resume()
    eventually(lambda: psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)
    process.kill()


def test_kill_ends_descendants(tmp_path: Path, eventually: Eventually) -> None:
    """`wanted` stays true, because a kill simulates a crash."""
    process = started(tmp_path, eventually, WITH_CHILD)
    descendant = int(process.log_tail(2).split()[0])
    process.kill()
    assert process.returncode == -signal.SIGKILL
    assert process.wanted
    eventually(lambda: gone(descendant))


def test_children_of_a_dead_process_are_killed(tmp_path: Path, eventually: Eventually) -> None:
    """The end of the first process ends all others, as in a container."""
    process = ManagedProcess("it", ["sh", "-c", "sleep 600 & echo $!"], workdir=tmp_path)
    process.start()
    assert process.wait(20) == 0
    eventually(lambda: gone(int(process.log_tail(1))))


def test_process_has_its_own_process_group(tmp_path: Path, eventually: Eventually) -> None:
    """Ctrl-C reaches the terminal's foreground group, which must contain only the parent."""
    process = started(tmp_path, eventually, SLEEP)
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    process.kill()


def test_process_can_be_started_again(tmp_path: Path, eventually: Eventually) -> None:
    """The new process uses the same log. Starting a running one is an error."""
    process = started(tmp_path, eventually, SLEEP)
    first = process.pid
    with pytest.raises(LocalError, match=f"it is running already, as process {first}"):
        process.start()
    process.kill()
    process.start()
    eventually(lambda: process.log_tail().count("\nup\n") == 2)
    assert process.pid != first
    assert process.starts == 2
    process.kill()


def test_unknown_program_is_named(tmp_path: Path) -> None:
    """The start fails with its name."""
    with pytest.raises(LocalError, match="cannot start it: there is no program no-such-program"):
        ManagedProcess("it", ["no-such-program"], workdir=tmp_path).start()


def test_process_that_was_never_started_has_no_pid(tmp_path: Path) -> None:
    """Asking for the pid is an error. Stopping is not."""
    process = ManagedProcess("it", SLEEP, workdir=tmp_path)
    process.stop()
    process.kill()
    with pytest.raises(LocalError, match="it was never started"):
        _ = process.pid


def test_cpu_time_adds_up_over_restarts(tmp_path: Path, eventually: Eventually) -> None:
    """Memory is that of the running process."""
    busy = [sys.executable, "-S", "-c", "while True: pass"]
    process = ManagedProcess("it", busy, workdir=tmp_path)
    process.start()
    eventually(lambda: process.cpu_seconds() > 0.2)
    assert process.rss() > 1_000_000
    process.kill()
    assert process.rss() == 0
    used = process.cpu_seconds()
    process.start()
    eventually(lambda: process.cpu_seconds() > used + 0.2)
    process.kill()


def test_child_outlives_the_thread_that_started_it(tmp_path: Path, eventually: Eventually) -> None:
    """Linux ties a child to a thread of its parent. That thread must live long enough."""
    lives: list[ManagedProcess] = []
    thread = threading.Thread(target=lambda: lives.append(started(tmp_path, eventually, SLEEP)))
    thread.start()
    thread.join()
    (process,) = lives
    assert process.wait(0.3) is None
    process.kill()


PARENT = """
import sys, time
from pathlib import Path
from kstorm import die_with_parent
from kstorm.dev.processes import ManagedProcess
process = ManagedProcess("it", ["sleep", "600"], workdir=Path(sys.argv[1]))
process.start()
print(process.pid, flush=True)
{end}
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux kills a child for the death of its parent"
)
def test_child_dies_with_a_killed_parent(tmp_path: Path, eventually: Eventually) -> None:
    """SIGKILL leaves a parent no time to stop its children."""
    command = [sys.executable, "-c", PARENT.format(end="time.sleep(600)"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        eventually(lambda: psutil.Process(child).name() == "sleep")
        parent.kill()
    eventually(lambda: gone(child))


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux kills a child for the death of its parent"
)
def test_child_of_a_dead_parent_does_not_start() -> None:
    """A parent may die before its child requests the signal. Then the child exits."""
    not_the_parent = str(os.getpid() + 1)
    command = [sys.executable, die_with_parent.__file__, not_the_parent, "echo", "started"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "the parent died before its child had started" in done.stderr


@pytest.mark.parametrize("end", ["", "raise SystemExit(1)", "1 / 0"])
def test_child_dies_with_a_parent_that_ends(
    tmp_path: Path, eventually: Eventually, end: str
) -> None:
    """The parent failed, or did not stop its child."""
    command = [sys.executable, "-c", PARENT.format(end=end), str(tmp_path)]
    parent = subprocess.run(command, capture_output=True, text=True, check=False)
    eventually(lambda: gone(int(parent.stdout)))
