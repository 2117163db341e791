"""Faults of the disks with RocksDB: full, lost, and reset to an earlier state."""

import random
import shutil
from pathlib import Path
from typing import Final

from kstorm.dev.local_processes import Worker
from tests.chaos.faults import Fault, HoldFor, Steps
from tests.chaos.small_disk import fill_disk
from tests.chaos.testbed import Testbed

_FULL_SECS: Final = 6.0
_OLDER_SECS: Final = 8.0


def fill(stage: Testbed, rng: random.Random) -> Steps:
    """Fill the disk while the process works, and keep it full while the process restarts."""
    worker = stage.small_disk
    assert worker is not None
    filler = stage.data_of(worker) / "filler"
    try:
        fill_disk(filler)
        yield HoldFor(_FULL_SECS)
        worker.process.kill()
        yield HoldFor(_FULL_SECS)
    finally:
        filler.unlink(missing_ok=True)


def lose(stage: Testbed, rng: random.Random) -> Steps:
    """Delete the directory before the process restarts."""
    worker = stage.pick(rng.choice(stage.subject.stateful), rng)
    _die(worker)
    try:
        yield HoldFor(0)
        _empty(stage.data_of(worker))
    finally:
        worker.process.start()


def go_back(stage: Testbed, rng: random.Random) -> Steps:
    """Restart the process with an earlier copy of its directory."""
    worker = stage.pick(rng.choice(stage.subject.stateful), rng)
    data, older = stage.data_of(worker), stage.directory / "older-life"
    _die(worker)
    try:
        shutil.rmtree(older, ignore_errors=True)
        shutil.copytree(data, older)
    finally:
        worker.process.start()
    yield HoldFor(_OLDER_SECS)
    _die(worker)
    try:
        _empty(data)
        shutil.copytree(older, data, dirs_exist_ok=True)
    finally:
        worker.process.start()


def _die(worker: Worker) -> None:
    """Kill the process with SIGKILL. It is not restarted automatically."""
    worker.process.stop(0)


def _empty(folder: Path) -> None:
    for child in folder.iterdir():
        if child.is_dir():
            shutil.rmtree(child)
        else:
            child.unlink()


DISK_FAULTS: Final = [
    Fault(
        "disk-full",
        "the disk of a counting process is full while it works, and still full when it is killed and restarted",
        fill,
        lambda stage: stage.no_small_disk,
    ),
    Fault(
        "disk-lost", "a process with RocksDB is killed and restarted without its directory", lose
    ),
    Fault(
        "disk-of-older-life",
        "a process with RocksDB is killed and restarted with an older copy of its directory",
        go_back,
    ),
]
