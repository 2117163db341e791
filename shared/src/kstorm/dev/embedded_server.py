"""A real Java server that runs as a child process of a demo, a local run or a test."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from kstorm.dev.failure_causes import explain_run
from kstorm.dev.java import find_java
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.server_settings import java_options
from kstorm.errors import LocalError

LOOK_SECS: Final = 0.05


class ServerEndedError(LocalError):
    """A local server has ended in the middle of a run, and cannot be started again."""

    exit_code = 1


class EmbeddedServer(ABC):
    """A Java server that runs as a child process. A subclass provides its settings."""

    def __init__(self, name: str, workdir: Path, *, heap: str, start_timeout: float) -> None:
        self.name = name
        self.data_directory = workdir.resolve() / name
        """The folder for the server's settings and data."""
        self._workdir = workdir.resolve()
        self._heap = heap
        self._start_timeout = start_timeout
        self._process: ManagedProcess | None = None
        self._abandoned = threading.Event()

    @property
    def log_path(self) -> Path:
        """The file with the server's output, from all its starts."""
        return self._workdir / f"{self.name}.log"

    @property
    def process(self) -> ManagedProcess:
        """The server's process, for a caller that pauses or measures it. Raises `LocalError` before
        the first start."""
        if self._process is None:
            raise LocalError(f"{self.name} was never started")
        return self._process

    def start(self) -> Self:
        """Start the server and wait until it is ready. Raises `LocalError`, with the cause or the
        end of the log, if it does not start."""
        if self._process is None:
            self.data_directory.mkdir(parents=True, exist_ok=True)
            arguments = self._prepare()
            self._process = ManagedProcess(self.name, self._java(*arguments), workdir=self._workdir)
        self._process.start()
        try:
            self._await_ready(self._process)
        except BaseException:  # Ctrl-C as well
            self._process.kill()
            raise
        return self

    def stop(self, timeout: float = 20.0) -> None:
        """Stop the server by SIGTERM, and kill it after `timeout` seconds. It can be started again."""
        if self._process is not None:
            self._process.stop(timeout)

    def kill(self) -> None:
        """Kill the server by SIGKILL, as a machine's failure would. It can be started again."""
        self.process.kill()

    def abandon(self) -> None:
        """Kill the server permanently. If another thread is starting it, that start fails."""
        self._abandoned.set()
        if self._process is not None:
            self._process.kill()

    def check(self) -> None:
        """Raise `LocalError`, with the cause or the end of the log, if the server has ended
        unexpectedly."""
        process = self.process
        if process.wanted and not process.alive:
            raise LocalError(self._failure(f"ended with exit code {process.returncode}", process))

    def look_after(self, say: Callable[[str], None]) -> None:
        """Start the server again if it has ended unexpectedly. `say` receives the reason.

        Raises `ServerEndedError` if its log shows a cause that a restart does not remove, such as a
        full disk, or if it does not start.
        """
        process = self.process
        if not process.wanted or process.alive:
            return
        problem = self._failure(f"ended with exit code {process.returncode}", process)
        if explain_run(process.log_tail(200), self.data_directory):
            raise ServerEndedError(problem)
        say(f"{problem.splitlines()[0].removesuffix(' ends with:')}: it is started again")
        try:
            self.start()
        except LocalError as error:
            raise ServerEndedError(f"{self.name} does not start again: {error}") from None

    def restart(self) -> None:
        """Stop the server if it runs, and start it again on the same port with the same data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _prepare(self) -> Sequence[str | Path]:
        """Write the server's settings to its directory; return Java's arguments from the class path on."""

    @abstractmethod
    def _serves(self) -> bool:
        """Return True if a client gets a correct response. Takes a few seconds at most."""

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        return [find_java().executable, *java_options(self._heap), *arguments]

    def _await_ready(self, process: ManagedProcess) -> None:
        deadline = time.monotonic() + self._start_timeout
        while not self._serves():
            if self._abandoned.is_set():
                problem = "was stopped during its start"
            elif not process.alive:
                problem = f"ended with exit code {process.returncode}"
            elif time.monotonic() > deadline:
                problem = f"did not serve within {self._start_timeout:g} s"
            else:
                time.sleep(LOOK_SECS)
                continue
            raise LocalError(self._failure(problem, process))

    def _failure(self, problem: str, process: ManagedProcess) -> str:
        """Return one line if the log shows a known cause, otherwise the end of the log."""
        if cause := explain_run(process.log_tail(200), self.data_directory):
            return f"{self.name} {problem}: {cause}. Its log is {process.log_path}"
        return (
            f"{self.name} {problem}; its log {process.log_path} ends with:\n{process.log_tail(20)}"
        )
