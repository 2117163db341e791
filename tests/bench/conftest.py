"""`./run bench micro`: microseconds per item, and the ratio to a plain loop in the same session.

The ratio is similar on all machines, so the committed baseline stores it. The loop takes less than
a millisecond. A single busy moment of the machine could slow all its rounds and make every ratio
wrong. So it runs again before each measurement, and its best time in the whole session counts.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from timeit import repeat
from typing import Any

import pytest

BASELINE = Path(__file__).with_name("baseline.json")
CALIBRATION = "a plain loop: one dict update"
N = 4000
WORDS = [f"word{number}" for number in Random(1).choices(range(5000), k=N)]
ROUNDS = 15

Measure = Callable[[int, Callable[[], Any]], None]
figures: dict[str, float] = {}
instructions: dict[str, tuple[int, int | None]] = {}
"""Instructions per sentence, counted and in the baseline."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compare", action="store_true", help="show the change against the committed baseline"
    )
    parser.addoption("--save", action="store_true", help="make these figures the baseline")


def plain_loop() -> None:
    """The base of all ratios."""
    counts: dict[str, int] = {}
    for word in WORDS:
        counts[word] = counts.get(word, 0) + 1


def calibrate() -> None:
    best = min(repeat(plain_loop, number=1, repeat=ROUNDS)) / N * 1e6
    figures[CALIBRATION] = min(best, figures.get(CALIBRATION, best))


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Measure:
    """`measure(items, act)` times `act`, which handles `items` items."""

    def timed(items: int, act: Callable[[], Any]) -> None:
        calibrate()
        benchmark.pedantic(act, rounds=ROUNDS, iterations=1, warmup_rounds=2)
        kind = f", {request.node.callspec.id}" if hasattr(request.node, "callspec") else ""
        figures[request.node.function.__doc__.strip(".") + kind] = (
            benchmark.stats.stats.min / items * 1e6
        )

    return timed


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not figures:
        return
    base = figures[CALIBRATION]
    ratios = {name: round(figure / base, 2) for name, figure in figures.items()}
    before = json.loads(BASELINE.read_text()) if config.getoption("--compare") else {}
    terminalreporter.section("microseconds an item (best of 15), and as a ratio to a plain loop")
    for name, figure in figures.items():
        change = f"{ratios[name] / before[name] - 1:+8.0%}" if name in before else ""
        terminalreporter.write_line(f"{figure:9.3f} µs {ratios[name]:9.2f} {change}  {name}")
    for name, (count, known) in instructions.items():
        change = "no baseline for this Python" if known is None else f"{count / known - 1:+8.1%}"
        terminalreporter.write_line(f"{count:9,} instructions per sentence {change}  {name}")
    if config.getoption("--save"):
        BASELINE.write_text(json.dumps(ratios, indent=1, ensure_ascii=False) + "\n")
