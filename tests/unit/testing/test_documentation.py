"""Every Python block in these pages runs, and its tests pass.

A block `py` is a fragment, or belongs to another program.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs" / "guides"


def blocks(page: str) -> str:
    """Returns the page's Python blocks as a module.

    All other lines are empty, to keep line numbers.
    """
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        fence = line.startswith("```")
        lines.append("" if fence or not inside else line)
        if fence:
            inside = line == "```python"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("page", "tests"),
    [
        ("testing.md", 18),
        ("trident.md", 5),
        ("windows.md", 4),
        ("from-storm.md", 2),
        ("from-streamparse.md", 1),
        ("from-faust.md", 1),
    ],
)
def test_the_blocks_of_the_page_run(page: str, tests: int, tmp_path: Path) -> None:
    """All blocks are one module of tests."""
    module = blocks((DOCS / page).read_text())
    (tmp_path / "test_page.py").write_text(module)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "test_page.py",
    ]
    env = {
        **os.environ,
        "CI": "true",
    }  # Hypothesis then draws the same values each time, on any machine
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout + ran.stderr
    assert module.count("\ndef test_") == tests
