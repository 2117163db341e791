"""`./run bench micro`: microseconds an item, and as a ratio to a plain Python loop measured in the same session.

The ratio is what holds from machine to machine, and what the committed baseline has.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BASELINE = Path(__file__).with_name("baseline.json")
CALIBRATION = "a plain loop: one dict update"

Measure = Callable[[int, Callable[[], Any]], None]
figures: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compare", action="store_true", help="show the change against the committed baseline")
    parser.addoption("--save", action="store_true", help="make these figures the baseline")


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Measure:
    """`measure(items, act)` times `act`, which handles so many items."""

    def timed(items: int, act: Callable[[], Any]) -> None:
        benchmark.pedantic(act, rounds=15, iterations=1, warmup_rounds=2)
        kind = f", {request.node.callspec.id}" if hasattr(request.node, "callspec") else ""
        figures[request.node.function.__doc__.strip(".") + kind] = benchmark.stats.stats.min / items * 1e6

    return timed


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if CALIBRATION not in figures:
        return
    base = figures[CALIBRATION]
    ratios = {name: round(figure / base, 2) for name, figure in figures.items()}
    before = json.loads(BASELINE.read_text()) if config.getoption("--compare") else {}
    terminalreporter.section("microseconds an item (best of 15), and as a ratio to a plain loop")
    for name, figure in figures.items():
        change = f"{ratios[name] / before[name] - 1:+8.0%}" if name in before else ""
        terminalreporter.write_line(f"{figure:9.3f} µs {ratios[name]:9.2f} {change}  {name}")
    if config.getoption("--save"):
        BASELINE.write_text(json.dumps(ratios, indent=1, ensure_ascii=False) + "\n")
