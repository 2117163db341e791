"""Child processes with a name and a log, which can be stopped, killed and paused, and never outlive
their parent.

- A child has its own process group. So Ctrl-C in the terminal reaches only the parent, which then
  stops its children in order.
- A signal to a child goes to its whole group. When the child ends, its remaining descendants are
  killed, as in a container.
- On Linux the kernel kills a child whose parent died, even by SIGKILL (`die_with_parent`). On other
  systems, children end only with an orderly exit of the parent.
"""

import atexit
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from kstorm import die_with_parent
from kstorm.errors import LocalError

_KILL_DEADLINE_SECS: Final = 10.0
_POLL_SECS: Final = 0.02


class ManagedProcess:
    """A command that runs as a child process and can be restarted. Its output goes to
    `<workdir>/<name>.log`.

    `command` is the program and its arguments. `environment` is added to this process's own.
    Nothing runs before `start`. All methods are thread-safe.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        workdir: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_path = workdir / f"{name}.log"
        self.starts = 0
        """Number of starts."""
        self.wanted = False
        """True if it should be running: from `start` to `stop`. A death or a `kill` in between
        leaves it True."""
        self._command = [str(part) for part in command]
        self._environment = dict(environment or {})
        self._child: subprocess.Popen[bytes] | None = None
        # Held while the process is being started or ended, which may take some time.
        self._change_lock = threading.RLock()
        # Held only briefly, so that no signal goes to a reused process id.
        self._child_lock = threading.Lock()
        self._cpu_of_past_lives = 0.0
        self._cpu_of_this_life = 0.0
        _all_processes.add(self)

    @property
    def pid(self) -> int:
        """Process id of its current or last run. Raises `LocalError` if it was never started."""
        if self._child is None:
            raise LocalError(f"{self.name} was never started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if it is running or paused."""
        return self._child is not None and self.returncode is None

    @property
    def returncode(self) -> int | None:
        """Exit code of its last run, or minus the number of the signal that ended it.

        None if it is alive or was never started.
        """
        with self._child_lock:
            child = self._child
            if child is None or child.returncode is not None:
                return None if child is None else child.returncode
            if child.poll() is not None:
                _signal_group(child, signal.SIGKILL)  # kill its remaining descendants
            return child.returncode

    def start(self) -> None:
        """Start it. Raises `LocalError` if it is running or its program does not exist."""
        with self._change_lock:
            if self.alive:
                raise LocalError(f"{self.name} is running already, as process {self.pid}")
            if shutil.which(self._command[0]) is None:
                raise LocalError(
                    f"cannot start {self.name}: there is no program {self._command[0]}"
                )
            self._cpu_of_past_lives += self._cpu_of_this_life
            self._cpu_of_this_life = 0.0
            self.starts += 1
            self.wanted = True
            self._child = _spawner.run(self._spawn)

    def revive(self) -> None:
        """Start it again if it should be running and is not. Called by a supervisor."""
        with self._change_lock:
            if self.wanted and not self.alive:
                self.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Send SIGTERM, wait up to `timeout` seconds, and then kill the process. Does nothing if it
        is not running."""
        with self._change_lock:
            self.wanted = False
            if self.alive:
                self.cpu_seconds()
                self._signal(signal.SIGTERM)
                # A paused process receives SIGTERM only once it continues.
                self._signal(signal.SIGCONT)
                if self.wait(timeout) is None:
                    self.kill()

    def kill(self) -> None:
        """Kill it and its descendants by SIGKILL, and wait until it is gone."""
        with self._change_lock:
            if self.alive:
                self.cpu_seconds()
                self._signal(signal.SIGKILL)
                if self.wait(_KILL_DEADLINE_SECS) is None:
                    raise LocalError(f"{self.name}, process {self.pid}, does not die of SIGKILL")

    def pause(self) -> None:
        """Freeze it by SIGSTOP: it keeps its connections and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds until it has ended. Return its exit code, or None if it
        still runs."""
        deadline = time.monotonic() + timeout
        while self.alive and time.monotonic() < deadline:
            time.sleep(_POLL_SECS)
        return self.returncode

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of its log, or "" if there is none yet."""
        try:
            with self.log_path.open(errors="replace") as log:
                return "".join(deque(log, lines))
        except FileNotFoundError:
            return ""

    def cpu_seconds(self) -> float:
        """Return the CPU time in seconds of all its runs, with descendants.

        For a run that ended unexpectedly, it includes only the time up to the previous call.
        """
        now = 0.0
        for member in self._members():
            with suppress(psutil.Error):
                times = member.cpu_times()
                now += times.user + times.system + times.children_user + times.children_system
        self._cpu_of_this_life = max(self._cpu_of_this_life, now)
        return self._cpu_of_past_lives + self._cpu_of_this_life

    def rss(self) -> int:
        """Return its resident memory with descendants in bytes, or 0 if it is not running."""
        total = 0
        for member in self._members():
            with suppress(psutil.Error):
                total += member.memory_info().rss
        return total

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        with self.log_path.open("ab") as log:
            log.write(
                f"--- {self.name}, start {self.starts}: {shlex.join(self._command)}\n".encode()
            )
            log.flush()
            return subprocess.Popen(
                wrapper + self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment,
                process_group=0,
            )

    def _signal(self, signal_number: int) -> None:
        with self._child_lock:
            if self._child is not None and self._child.returncode is None:
                _signal_group(self._child, signal_number)

    def _members(self) -> Iterator[psutil.Process]:
        if self.alive:
            with suppress(psutil.Error):
                leader = psutil.Process(self.pid)
                yield leader
                yield from leader.children(recursive=True)


class _Spawner:
    """Starts all children from one thread that lives as long as this process.

    Linux kills a child when the *thread* that started it ends. A child started by a short-lived
    thread would die with it.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[_Start, _Started]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, start: "_Start") -> "subprocess.Popen[bytes]":
        with self._lock:
            # The thread does not survive a fork of this process.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._serve, name="kstorm-spawner", daemon=True
                )
                self._thread.start()
        started: _Started = Future()
        self._orders.put((start, started))
        return started.result()

    def _serve(self) -> None:
        while True:
            start, started = self._orders.get()
            try:
                started.set_result(start())
            except BaseException as error:  # noqa: BLE001 - the caller handles it
                started.set_exception(error)


def _signal_group(child: "subprocess.Popen[bytes]", signal_number: int) -> None:
    # macOS returns EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal_number)


_Start = Callable[[], "subprocess.Popen[bytes]"]
_Started = Future["subprocess.Popen[bytes]"]

_spawner = _Spawner()
_all_processes: weakref.WeakSet[ManagedProcess] = weakref.WeakSet()
os.register_at_fork(after_in_child=_all_processes.clear)


@atexit.register
def _kill_all() -> None:
    for process in list(_all_processes):
        process.kill()
