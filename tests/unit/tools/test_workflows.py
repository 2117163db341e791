"""The workflows of `.github` run commands that also run on a developer's machine."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kstorm.dev.jars import SPARK_VERSION
from tools.spark_releases import OLD_SPARK_VERSION

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERBS = re.findall(r"(?m)^    ([a-z]+)(?: \| [a-z]+)?\) ", (ROOT / "run").read_text())


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def needs(folder: str) -> list[str]:
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    lists = project["dependencies"], *project.get("optional-dependencies", {}).values()
    return [need for each in lists for need in each]


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
            assert name in {"packages", "images", "chart", "site"}


def test_scripts_get_the_arguments_that_they_name() -> None:
    """A script's second comment is its usage; a step must give every argument without brackets."""
    for workflow in WORKFLOWS:
        for command in commands(workflow):
            program, *words = shlex.split(command)
            if not program.startswith(".ci/"):
                continue
            usage = re.search(
                rf"(?m)^#   {program}((?: \[?[A-Z|a-z]+\]?)*)(?:    |$)",
                (ROOT / program).read_text(),
            )
            names = usage[1].split() if usage else []
            least = [name for name in names if not name.startswith("[")]
            assert len(least) <= len(words) <= len(names), command


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_need_jobs_that_exist_and_artifacts_that_are_uploaded(workflow: Path) -> None:
    """A job downloads only from jobs that it needs, directly or through others."""
    found = jobs(workflow)
    for name, job in found.items():
        before = needed(found, name)
        uploads = [
            step["with"]["name"]
            for one in before
            for step in found[one]["steps"]
            if step.get("uses", "").startswith("actions/upload-artifact@")
        ]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/download-artifact@"):
                wanted = step["with"].get("name") or step["with"]["pattern"].removesuffix("*")
                assert any(upload.startswith(wanted) for upload in uploads), (name, wanted)


def needed(found: dict[str, Any], name: str) -> set[str]:
    needs = found[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(needed(found, one) for one in direct))


def test_actionlint_finds_nothing() -> None:
    """`.ci/lint-workflows` builds it, if Go is there."""
    cache = Path(os.environ.get("KSTORM_CACHE", Path.home() / ".cache" / "kstorm"))
    places = [str(folder) for folder in cache.glob("actionlint-*")]
    actionlint = shutil.which("actionlint", path=os.pathsep.join([os.environ["PATH"], *places]))
    if actionlint is None:
        pytest.skip("there is no actionlint: .ci/lint-workflows builds it")
    done = subprocess.run([actionlint, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_owners_are_of_every_file() -> None:
    """`./run packages home` sets the owner."""
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    [rule] = [line for line in lines if not line.startswith("#")]
    assert re.fullmatch(r"\* @[\w/-]+", rule)


def test_every_python_of_the_packages_is_tested() -> None:
    least = re.findall(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    pythons = jobs(ROOT / ".github/workflows/ci.yml")["test"]["strategy"]["matrix"]["python"]
    assert pythons == [f"3.{minor}" for minor in range(int(least[0]), 14)]


def test_oldest_and_newest_spark_of_the_pipeline_are_tested() -> None:
    """A release between them, and what `kstorm demo` needs, follow from these two."""
    [allowed] = [need for need in needs("services/pipeline") if need.startswith("pyspark")]
    assert allowed == f"pyspark>={OLD_SPARK_VERSION},<={SPARK_VERSION}"
    assert f"pyspark=={SPARK_VERSION}" in needs("shared")
    matrix = jobs(ROOT / ".github/workflows/ci.yml")["spark"]["strategy"]["matrix"]
    assert matrix == {"spark": [OLD_SPARK_VERSION]}
