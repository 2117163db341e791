"""The workflows of `.github` run commands that also run on a developer's machine."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERBS = re.findall(r"(?m)^    ([a-z]+)(?: \| [a-z]+)?\) ", (ROOT / "run").read_text())


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def commands(workflow: Path) -> Iterator[str]:
    for job in jobs(workflow).values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_call_one_command_of_the_repository(workflow: Path) -> None:
    assert list(commands(workflow))
    for command in commands(workflow):
        program, *words = command.split()
        if program == "./run":
            assert words[0] in VERBS, command
        else:
            assert program.startswith(".ci/"), command
            assert os.access(ROOT / program, os.X_OK), command


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_may_only_read_unless_they_say_so(workflow: Path) -> None:
    text = workflow.read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    for name, job in jobs(workflow).items():
        if "permissions" in job:
            assert name in {"packages", "chart", "site"}


def test_every_python_of_the_packages_is_tested() -> None:
    least = re.findall(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    pythons = jobs(ROOT / ".github/workflows/ci.yml")["test"]["strategy"]["matrix"]["python"]
    assert pythons == [f"3.{minor}" for minor in range(int(least[0]), 14)]
