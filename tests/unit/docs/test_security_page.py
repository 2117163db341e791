"""SECURITY.md: each line of its threat model names tests that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES = re.findall(r"(?m)^\| (?!wants|---)(.*) \|$", (ROOT / "SECURITY.md").read_text())
OURS_TO_SHOW = [line for line in LINES if "nothing of kstorm's" not in line]


def names_in(file: Path) -> set[str]:
    """The names of the tests of a file."""
    found = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_most_lines_are_shown() -> None:
    """All but what nobody but the operator can see to."""
    assert len(LINES) - len(OURS_TO_SHOW) == 1
    assert len(LINES) > 15


@pytest.mark.parametrize("line", OURS_TO_SHOW)
def test_the_tests_of_a_line_are_there(line: str) -> None:
    """One that was renamed or taken out leaves the line without what it claims."""
    named = re.findall(r"`(tests/[^:`]+)::(test_\w+)`", line)
    assert named, f"SECURITY.md names no test in: {line}"
    for path, name in named:
        assert (ROOT / path).is_file(), f"SECURITY.md names {path}: there is no such file"
        assert name in names_in(ROOT / path), f"SECURITY.md names {path}::{name}: it is not there"
