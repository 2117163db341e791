"""Keep processes running, as a kubelet does with the containers of a pod.

If an added process dies for any reason, the supervisor restarts it after a short delay. It stops
doing so when the process is removed or the supervisor is stopped. A process that `ManagedProcess.stop` has stopped is
not restarted.
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError

_log = logging.getLogger(__name__)
_LOOK_SECS: Final = 0.05


class Supervisor:
    """Restarts its processes. It is a context manager, which stops them all at its end.

    `restart_delay` is the time in seconds from the detection of a death to the restart. It is the
    same for every death.
    """

    def __init__(self, *, restart_delay: float = 1.0) -> None:
        self._restart_delay = restart_delay
        self._processes: list[ManagedProcess] = []
        self._due: dict[ManagedProcess, float] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kstorm-supervisor", daemon=True)

    @property
    def processes(self) -> list[ManagedProcess]:
        """Supervised processes, in the order in which they were added."""
        with self._lock:
            return list(self._processes)

    def add(self, process: ManagedProcess) -> ManagedProcess:
        """Start a process, unless it already runs, and keep it running from now on."""
        if self._ended.is_set():
            raise LocalError(f"cannot add {process.name}: this supervisor has been stopped")
        if not process.alive:
            process.start()
        with self._lock:
            self._processes.append(process)
            if not self._thread.ident:
                self._thread.start()
        return process

    def remove(self, process: ManagedProcess, timeout: float = 10.0) -> None:
        """Stop a process within `timeout` seconds, by SIGKILL if necessary, and forget it."""
        with self._lock:
            self._processes.remove(process)
        process.stop(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Stop all processes in parallel, each within `timeout` seconds, by SIGKILL if necessary.
        Nothing restarts."""
        self._ended.set()
        if self._thread.ident:
            self._thread.join()
        stop_all(self.processes, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECS):
            for process in self.processes:
                self._look_after(process)

    def _look_after(self, process: ManagedProcess) -> None:
        if process.alive or not process.wanted:
            self._due.pop(process, None)
            return
        now = time.monotonic()
        if process not in self._due:
            self._due[process] = now + self._restart_delay
            _log.warning(
                "%s died with exit code %s, restart in %g s",
                process.name,
                process.returncode,
                self._restart_delay,
            )
        elif now >= self._due[process]:
            try:
                process.revive()
            except (LocalError, OSError) as error:
                _log.error("%s", error)
            del self._due[process]


def stop_all(processes: Iterable[ManagedProcess], timeout: float = 10.0) -> None:
    """Stop processes in parallel, each within `timeout` seconds, by SIGKILL if necessary."""
    processes = list(processes)
    with ThreadPoolExecutor(max_workers=max(1, len(processes))) as pool:
        for result in [pool.submit(process.stop, timeout) for process in processes]:
            result.result()
