"""The duration of each stage of a command, including the stages of the set-up, which run in other
processes.

`./run demo` exports its start time as `KSTORM_STARTED_AT`. The set-up records its stages in
`.kstorm/took.json`, where the demo finds those of its own command.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_FILE: Final = "took.json"
_STARTED_AT: Final = "KSTORM_STARTED_AT"


def started_at() -> float:
    """Return the Unix time at which the user started the command, or the current time if `./run`
    did not start this process."""
    with suppress(KeyError, ValueError):
        return float(os.environ[_STARTED_AT].replace(",", "."))
    return time.time()


def by_run() -> bool:
    """True if `./run` started this process."""
    return _STARTED_AT in os.environ


def note_stage_time(home: Path, stage: str, seconds: float) -> None:
    """Record the duration of a stage of the set-up."""
    noted = {**_read_times(home), stage: {"seconds": round(seconds, 1), "ended_at": time.time()}}
    (home / _FILE).write_text(json.dumps(noted) + "\n")


def set_up_times(home: Path, since: float) -> Mapping[str, float]:
    """Return the duration in seconds of each stage of the set-up that ended after `since`, in
    order."""
    found = [each for each in _read_times(home).items() if each[1]["ended_at"] >= since]
    return {stage: times["seconds"] for stage, times in sorted(found, key=lambda each: each[1]["ended_at"])}  # fmt: skip


def _read_times(home: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads((home / _FILE).read_text())
        return found if isinstance(found, dict) else {}
    return {}
