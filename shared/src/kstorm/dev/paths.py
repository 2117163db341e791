"""Locations of kstorm's files on this machine: a cache shared by all checkouts, and one directory
per run.

Two runs never share a directory at the same time. The disk space for logs and data of ended runs is
limited, because each new run removes the oldest of them and reports it.
"""

import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from kstorm.errors import LocalError

_RUNS_KEPT: Final = 5
_LOCK_NAME: Final = ".lock"
_TABLES: Final = "tables"
_held_locks: list[IO[str]] = []


def cache_directory() -> Path:
    """Return the folder for downloads: `KSTORM_CACHE`, otherwise `kstorm` in `XDG_CACHE_HOME` or
    `~/.cache`."""
    if chosen := os.environ.get("KSTORM_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kstorm"


def run_directory(base: Path | None = None, say: Callable[[str], None] = lambda text: None) -> Path:
    """Make a new directory for one run's logs and data. Keep at most five runs with tables and five
    others, such as failed starts. Remove the oldest ended ones, and report each to `say`.

    The directory is `<base>/<time>-<pid>`. `base` defaults to `runs` in `KSTORM_HOME`, which
    `./run` sets to the checkout's `.kstorm`. Without `KSTORM_HOME` it is in `.kstorm` of the
    current directory. The directory is marked as in use until this process ends.
    """
    base = _runs(base)
    base.mkdir(parents=True, exist_ok=True)
    if removed := _remove_old_runs(base):
        say(
            f"removed the oldest runs with their logs and tables: {', '.join(removed)}; the newest "
            f"{_RUNS_KEPT} are kept"
        )
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    for number in itertools.count():
        directory = base / (f"{stem}-{number}" if number else stem)
        with suppress(FileExistsError):
            directory.mkdir()
            break
    lock = (directory / _LOCK_NAME).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held_locks.append(lock)
    return directory


def kept_directory(name: str, base: Path | None = None, *, fresh: bool = False) -> Path:
    """Return the directory of a topology, whose data and logs stay. `fresh` removes an earlier one.

    It is `<base>/<name>`, with `base` as for `run_directory`. Raises `LocalError` if another
    process uses it.
    """
    directory = _runs(base) / name
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory.parent / f".{name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LocalError(
            f"another process runs {name!r} in {directory}: stop it, or give another folder by --workdir"
        ) from None
    _held_locks.append(lock)
    if fresh:
        shutil.rmtree(directory)
        directory.mkdir()
    for log in directory.glob("*.log"):
        log.unlink()
    return directory


def remove_bulk(run: Path) -> None:
    """Remove the data of the servers and RocksDB after a successful run. Logs and tables remain."""
    for folder in ("kafka", "zookeeper", "data"):
        shutil.rmtree(run / folder, ignore_errors=True)


@contextmanager
def exclusive(lock_path: Path) -> Iterator[None]:
    """Hold a lock across all processes of this machine. Waits until it is free."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _runs(base: Path | None) -> Path:
    return base or Path(os.environ.get("KSTORM_HOME", ".kstorm")).resolve() / "runs"


def _remove_old_runs(base: Path) -> list[str]:
    """Return the names of the removed runs. A run that made no tables displaces none that did."""
    runs = sorted(path for path in base.iterdir() if (path / _LOCK_NAME).is_file())
    with_tables = [run for run in runs if (run / _TABLES).exists()]
    others = [run for run in runs if run not in with_tables]
    removed = []
    for directory in [*_oldest(with_tables), *_oldest(others)]:
        with (directory / _LOCK_NAME).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory.name)
    return removed


def _oldest(runs: list[Path]) -> list[Path]:
    return runs[: max(0, len(runs) - _RUNS_KEPT + 1)]
