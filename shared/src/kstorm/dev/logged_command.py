"""Run a command of the set-up. Its output goes to a log, and the command never outlives this
process.

The set-up uses this module before any package is installed, so it imports only the standard
library. `kstorm.dev.processes` runs the processes of a topology, which need more.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from kstorm import die_with_parent

_END_SECS: Final = 10.0


class LoggedCommand:
    """A context manager. The command starts when the block is entered. At the end of the block, the
    command and its descendants have ended.

    The command has its own process group, so Ctrl-C in the terminal reaches only this process, which ends the command.
    """

    def __init__(
        self, command: Sequence[str | Path], log: Path, folder: Path | None = None
    ) -> None:
        """`folder` is the working directory of the command; by default this process's."""
        self._words = [str(word) for word in command]
        self._folder = folder
        self._path = log
        self._begin = self._read = 0
        self._child: subprocess.Popen[bytes]

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the command runs."""
        return self._child.poll()

    @property
    def name(self) -> str:
        return Path(self._words[0]).name

    def new_lines(self) -> list[str]:
        """The complete lines that the command has written since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()

    def written(self) -> str:
        """Everything that the command has written."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")

    def __enter__(self) -> Self:
        wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        with self._path.open("ab") as file:
            file.write(f"$ {' '.join(self._words)}\n".encode())
            file.flush()
            self._begin = self._read = file.tell()
            self._child = subprocess.Popen(
                wrapper + self._words,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                process_group=0,
            )
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                return
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_END_SECS)
