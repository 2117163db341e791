"""The README's code runs, and its figures and versions are those of other pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.dev.jars import DELTA_VERSION, KAFKA_VERSION, SPARK_VERSION, ZOOKEEPER_VERSION
from tests.unit.docs.test_pages import ROOT
from tools.spark_releases import OLD_SPARK_VERSION

README = (ROOT / "README.md").read_text()
HELLO, CRASH = re.findall(r"(?ms)^```python\n(.*?)^```$", README)
EXACT = {"the": 200, "cow": 100, "jumped": 100, "over": 100, "moon": 100}


def counts(folder: Path, topology: str) -> dict[str, int]:
    """Run the README's two files, and return the output of the latter."""
    (folder / "hello.py").write_text(topology)
    (folder / "crash.py").write_text(CRASH)
    done = subprocess.run(
        [sys.executable, "crash.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    found: dict[str, int] = eval(done.stdout)
    return found


def test_counts_are_exact_as_the_readme_says(tmp_path: Path) -> None:
    assert counts(tmp_path, HELLO) == EXACT
    for word, count in EXACT.items():
        assert f"*{word}*" in README
        assert f"{count} for *" in README


def test_counts_are_too_high_at_least_once(tmp_path: Path) -> None:
    found = counts(tmp_path, HELLO.replace("exactly_once", "at_least_once"))
    assert all(found[word] > count for word, count in EXACT.items())


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_figures_are_on_the_pages_that_they_link_to() -> None:
    """A figure of a measurement is the text of a link."""
    figures = re.findall(r"\[([^\]]*\d+\s(?:ms|s)\b[^\]]*)\]\(([^)#]+)", README)
    assert len(figures) >= 4
    for text, page in figures:
        measured = (ROOT / page).read_text()
        for number in re.findall(r"(\d+)\s(?:ms|s)\b", text):
            assert re.search(rf"\b{number}\b", measured), f"{number} is not in {page}"
    unlinked = re.sub(r"\[[^\]]*\]\([^)]*\)", "", README.replace("250 messages/s", ""))
    assert re.findall(r"\d+\s(?:ms|s)\b", unlinked) == ["10 ms"]  # a limit, not a measurement


@pytest.mark.parametrize(
    "part",
    [
        f"Kafka {KAFKA_VERSION}",
        f"ZooKeeper {ZOOKEEPER_VERSION}",
        f"Spark {OLD_SPARK_VERSION} and {SPARK_VERSION} with Delta {DELTA_VERSION}",
    ],
)
def test_versions_are_those_that_are_tested(part: str) -> None:
    assert part in README
