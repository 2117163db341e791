"""`python -m tools.test_times`, which `./run test --slowest` starts: shows where the time of the last test run went.

It reads the JUnit files that `./run test` leaves in `.kstorm/test-times`.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table


class TestTime(NamedTuple):
    """The duration of one test, its fixtures included."""

    tier: str
    suite: str
    name: str
    seconds: float


def main() -> int:
    """Print the slowest tests and a table of the suites; return 1 if no run has left times."""
    parser = argparse.ArgumentParser(
        prog="./run test --slowest", description="Show where the last test run spent its time."
    )
    parser.add_argument("--count", type=int, default=20, help="tests to list (default 20)")
    count = parser.parse_args().count
    directory = Path(os.environ["KSTORM_HOME"]) / "test-times"
    times = list(read(sorted(directory.glob("*.xml"))))
    console = Console()
    if not times:
        console.print(f"There are no times in {directory}: run ./run test first.")
        return 1
    console.print(_slowest(times, count))
    console.print(_suites(times))
    return 0


def read(files: Iterable[Path]) -> Iterator[TestTime]:
    """Yield the tests of JUnit files whose names begin with the tier and a hyphen."""
    for file in files:
        tier = file.name.partition("-")[0]
        for case in ElementTree.parse(file).iter("testcase"):  # noqa: S314 - pytest wrote it
            place = case.get("classname", "").split(".")
            suite = place[1] if place[0] == "tests" and len(place) > 1 else place[0]
            name = f"{'/'.join(place)}::{case.get('name')}"
            yield TestTime(tier, suite, name, float(case.get("time", 0)))


def _slowest(times: Iterable[TestTime], count: int) -> Table:
    table = Table("seconds", "test", title=f"The {count} slowest tests")
    for test in sorted(times, key=lambda test: -test.seconds)[:count]:
        table.add_row(f"{test.seconds:.1f}", test.name)
    return table


def _suites(times: Iterable[TestTime]) -> Table:
    table = Table("tier", "suite", "tests", "seconds, all workers", title="The suites")
    totals: dict[tuple[str, str], list[float]] = {}
    for test in times:
        totals.setdefault((test.tier, test.suite), []).append(test.seconds)
    for (tier, suite), seconds in sorted(totals.items()):
        table.add_row(tier, suite, str(len(seconds)), f"{sum(seconds):.0f}")
    return table


if __name__ == "__main__":
    raise SystemExit(main())
