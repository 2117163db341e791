"""Starts a command of `./run` as a user does: in a process group and with a home directory of its
own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_GRACE_SECS = 30


@dataclass(frozen=True)
class Command:
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def said(self) -> str:
        """Return the output so far."""
        return self.log.read_text()


@contextmanager
def started(module: str, *arguments: object, home: Path, folder: Path = ROOT) -> Iterator[Command]:
    """Run a module in a folder, with `home` for its runs, and end it if it is still running at the
    end."""
    log = home / "out"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=folder,
            env=os.environ | {"KSTORM_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process,
    ):
        try:
            yield Command(process, log)
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the command stop the processes that it started, and kill it if that takes too long."""
    process.terminate()
    try:
        process.wait(_GRACE_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
