"""The benchmark reads of kstorm's processes what travelled to the counting."""

import json
from pathlib import Path

from tests.bench.workers import WORKERS, figures_of_workers


def test_the_busiest_of_those_that_count(tmp_path: Path) -> None:
    """By its tuples, its CPU seconds and its busy seconds; other components do not matter."""
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


def test_who_tells_nothing_has_no_such_figures(tmp_path: Path) -> None:
    """The loop, and Faust; and a process that did not answer."""
    assert not figures_of_workers(tmp_path, 10, 4.0)
    (tmp_path / WORKERS).write_text(json.dumps([{"component": "count", "cpu_seconds": 3}]))
    assert not figures_of_workers(tmp_path, 10, 4.0)
