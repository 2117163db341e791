"""What kstorm's processes say of a run at its end: how much travelled to the counting, and how busy the busiest of those was."""

import json
from pathlib import Path
from typing import Any, Final

WORKERS: Final = "workers.json"
"""A file in `PEER_DIR`, by the peer: of each process its component, its CPU seconds since all were ready, and its `/status`."""
_COUNT: Final = "count"


def figures_of_workers(directory: Path, sentences: int, seconds: float) -> dict[str, float | None]:
    """Of a contestant that is kstorm, and has told; none of others. `seconds` that it worked."""
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
