"""Explains why a process of a run on this machine does not answer."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kstorm.runtime.run_files import RunningTopology, RunningWorker

if TYPE_CHECKING:
    import psutil

UNKNOWN: Final = "does not answer"
_MOST_BYTES: Final = 64_000
_BEGIN: Final = re.compile(r"^--- \S+, start \d+: .*\n?", re.MULTILINE)
"""The line that `kstorm.dev.processes` writes before each start."""
_REFUSAL: Final = re.compile(r"^kstorm-(?:spout|bolt|acker): (.+)$", re.MULTILINE)
"""The line with which a service refuses to start, before it exits with code 2."""


def why_silent(run: RunningTopology, worker: RunningWorker) -> str:
    """Return the reason: it is paused, has ended, refuses to start, or is starting."""
    import psutil

    lives = _lives(Path(worker.log)) if worker.log else []
    now = lives[-1] if lives else ""
    refusal = next(iter(_REFUSAL.findall(now)), "") or (
        next(iter(_REFUSAL.findall(lives[-2])), "") if len(lives) > 1 and not now.strip() else ""
    )
    process = next(_processes(run, worker), None)
    if process is not None and process.status() == psutil.STATUS_STOPPED:
        return f"is paused by SIGSTOP; `kill -CONT {process.pid}` continues it"
    if refusal:
        return f"does not start: {refusal}"
    if process is None:
        return "has ended" if worker.log else UNKNOWN
    return UNKNOWN if now.strip() else "is starting"


def _processes(run: RunningTopology, worker: RunningWorker) -> Iterator["psutil.Process"]:
    """Yield the worker's process, if it runs. Its parent is the command that runs the topology."""
    import psutil

    try:
        children = psutil.Process(run.pid).children()
    except psutil.Error:
        return
    for child in children:
        try:
            instance = child.environ().get("KSTORM_INSTANCE")
        except psutil.Error:
            continue
        if instance == worker.name and child.status() != psutil.STATUS_ZOMBIE:
            yield child


def _lives(log: Path) -> list[str]:
    """Return what each start has written to the end of a log, the newest last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return _BEGIN.split(text)
