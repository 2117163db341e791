"""The benchmark reads from kstorm's processes how many tuples and frames reached the counting
bolts.
"""

import json
from pathlib import Path

from tests.bench.workers import WORKERS, figures_of_workers


def test_results_of_the_busiest_counting_process(tmp_path: Path) -> None:
    """These are its tuples, CPU seconds and busy seconds. Other components do not matter."""
    numbers = {"frames_in": 5, "busy_seconds": 1.0}
    (tmp_path / WORKERS).write_text(
        json.dumps(
            [
                {
                    "component": "count",
                    "cpu_seconds": 3,
                    "executed": 60,
                    **numbers,
                    "busy_seconds": 2.0,
                },
                {"component": "count", "cpu_seconds": 1, "executed": 40, **numbers},
                {"component": "split", "cpu_seconds": 9, "executed": 10, **numbers},
            ]
        )
    )
    assert figures_of_workers(tmp_path, 10, 4.0) == {
        "tuples_to_count": 10,
        "frames_to_count": 1000,
        "count_cpu_s_per_million": 400_000,
        "hottest_share": 0.6,
        "hottest_cpu_s_per_million": 300_000,
        "hottest_busy": 0.5,
    }


def test_contestant_without_worker_statistics_has_no_such_results(tmp_path: Path) -> None:
    """These are the loop, Faust, and a process that did not respond."""
    assert not figures_of_workers(tmp_path, 10, 4.0)
    (tmp_path / WORKERS).write_text(json.dumps([{"component": "count", "cpu_seconds": 3}]))
    assert not figures_of_workers(tmp_path, 10, 4.0)
