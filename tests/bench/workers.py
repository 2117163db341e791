"""Final figures of kstorm's processes: data sent to the counting bolts, and the busiest's load."""

import json
from pathlib import Path
from typing import Any, Final

WORKERS: Final = "workers.json"
"""The peer's file in `PEER_DIR`, with each process's component, CPU seconds and `/status`.

The CPU seconds are those since all processes were ready.
"""
_COUNT: Final = "count"


def figures_of_workers(directory: Path, sentences: int, seconds: float) -> dict[str, float | None]:
    """Return the figures of a kstorm contestant that wrote the file, or none for any other.

    `seconds` is the duration of its work.
    """
    path = directory / WORKERS
    if not path.exists():
        return {}
    found: list[dict[str, Any]] = json.loads(path.read_text())
    counting = [each for each in found if each["component"] == _COUNT and "executed" in each]
    if not counting:
        return {}
    executed = [each["executed"] for each in counting]
    return {
        "tuples_to_count": sum(executed) / sentences,
        "frames_to_count": 1000 * sum(each["frames_in"] for each in counting) / sentences,
        "count_cpu_s_per_million": 1e6 * sum(each["cpu_seconds"] for each in counting) / sentences,
        "hottest_share": max(executed) / max(1, sum(executed)),
        "hottest_cpu_s_per_million": 1e6
        * max(each["cpu_seconds"] for each in counting)
        / sentences,
        "hottest_busy": max(each["busy_seconds"] for each in counting) / seconds,
    }
