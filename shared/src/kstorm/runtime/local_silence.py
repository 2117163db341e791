"""Explains why a process of a run on this machine does not answer."""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
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
_FATAL: Final = '"event": "fatal"'
"""Part of the line that a service logs before it exits with code 1."""
_START_SECS: Final = 60.0


def why_silent(run: RunningTopology, worker: RunningWorker) -> str:
    """Return the reason: it is paused, has ended, or is starting, perhaps after an error."""
    import psutil

    lives = _lives(Path(worker.log)) if worker.log else []
    errors = [_error(life) for life in lives[-2:]]
    process = next(_processes(run, worker), None)
    if process is None:
        return f"has ended{_after(errors[-1:])}" if lives else UNKNOWN
    if process.status() == psutil.STATUS_STOPPED:
        return f"is paused by SIGSTOP; `kill -CONT {process.pid}` continues it"
    if time.time() - process.create_time() < _START_SECS:
        return f"is starting{_after(errors[:1], ' again after an error')}"
    return UNKNOWN


def _after(errors: Sequence[str], words: str = "") -> str:
    return f"{words}: {errors[0]}" if errors and errors[0] else ""


def _error(life: str) -> str:
    """Return the error that ended a process, or empty."""
    if refusals := _REFUSAL.findall(life):
        return str(refusals[-1])
    last = life.rstrip().rpartition("\n")[2]
    if _FATAL not in last:
        return ""
    try:
        return str(json.loads(last)["error"])
    except (ValueError, KeyError):
        return ""


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
