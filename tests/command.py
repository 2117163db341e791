"""A command of `./run` as a user starts it: in a process group of its own, as a shell would, with a home of its own."""

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
        """All that it has written so far."""
        return self.log.read_text()


@contextmanager
def started(module: str, *arguments: object, home: Path) -> Iterator[Command]:
    """Runs a module with the directory `home` for its runs; ended at the end if it is still at work."""
    log = home / "out"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=ROOT,
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
    """Lets it stop what it has started; it is killed if that takes too long."""
    process.terminate()
    try:
        process.wait(_GRACE_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
