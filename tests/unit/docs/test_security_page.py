"""SECURITY.md: each line of its threat model names existing tests."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES = re.findall(r"(?m)^\| (?!wants|---)(.*) \|$", (ROOT / "SECURITY.md").read_text())
OURS_TO_SHOW = [line for line in LINES if "nothing of kstorm's" not in line]


def names_in(file: Path) -> set[str]:
    """Return the names of a file's tests."""
    found = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_all_lines_but_one_need_tests() -> None:
    """Only the operator can prevent that one."""
    assert len(LINES) - len(OURS_TO_SHOW) == 1
    assert len(LINES) > 15


@pytest.mark.parametrize("line", OURS_TO_SHOW)
def test_tests_of_a_line_exist(line: str) -> None:
    """After a rename or a removal the line would claim too much."""
    named = re.findall(r"`(tests/[^:`]+)::(test_\w+)`", line)
    assert named, f"SECURITY.md names no test in: {line}"
    for path, name in named:
        assert (ROOT / path).is_file(), f"SECURITY.md names {path}: there is no such file"
        assert name in names_in(ROOT / path), f"SECURITY.md names {path}::{name}: it is not there"
