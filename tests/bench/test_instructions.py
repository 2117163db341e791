"""The instructions of the core per sentence must not grow unnoticed.

valgrind counts them. Unlike seconds, they hardly differ between runs and machines. They differ
between builds of Python, so the baseline has figures for each build that was measured.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bench.conftest import instructions

BASELINE = Path(__file__).with_name("instructions.json")
BUILD = f"Python {platform.python_version()}, {platform.python_compiler()}"
FEW = 500
MOST = 1.05
"""Limit of the growth."""
_COUNT = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def run(sentences: int, tasks: int, kind: str, *under: str) -> str:
    """Returns what the run, or the program that it runs under, wrote to stderr."""
    command = [*under, sys.executable, "-m", "tests.bench.counted_run"]
    return subprocess.run(
        [*command, str(sentences), str(tasks), kind],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def count(sentences: int, tasks: int, kind: str) -> int:
    """Returns the number of instructions of a whole process."""
    written = run(sentences, tasks, kind, *_COUNT)
    found = re.search(r"I\s+refs:\s+([\d,]+)", written)
    assert found, written
    return int(found[1].replace(",", ""))


@pytest.mark.timeout(1200)  # valgrind takes 50 times as long as the run alone
@pytest.mark.parametrize(
    ("name", "tasks", "kind", "many"),
    [
        ("tuple by tuple, 12 tasks", 12, "tuples", 1500),
        ("in batches, one task", 1, "batches", 4500),
    ],
)
def test_instructions_per_sentence(
    name: str, tasks: int, kind: str, many: int, pytestconfig: pytest.Config
) -> None:
    """A run with many sentences differs from one with few only in the work for more sentences.

    Two runs differ by up to 10 million instructions, because memory has other addresses. This is
    at most 2 % of the result.
    """
    compare, save = pytestconfig.getoption("--compare"), pytestconfig.getoption("--save")
    if not compare and not save:
        pytest.skip("only --compare and --save count instructions")
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed: apt-get install valgrind")
    run(FEW, tasks, kind)  # compiles the modules
    with ThreadPoolExecutor(2) as pool:
        less, more = pool.map(lambda sentences: count(sentences, tasks, kind), (FEW, many))
    figure = (more - less) // (many - FEW)
    baseline: dict[str, dict[str, int]] = json.loads(BASELINE.read_text())
    before = baseline.get(BUILD, {}).get(name)
    instructions[name] = figure, before
    if save:
        baseline.setdefault(BUILD, {})[name] = figure
        BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")
        return
    assert before is None or figure <= MOST * before, (
        f"{name}: {figure:,} instructions per sentence, before {before:,}: find the cause, or "
        "accept it with ./run bench micro --save"
    )
