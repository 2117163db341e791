"""`kstorm new`: every template makes a project whose own tests pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kstorm.cli.values import values
from kstorm.new import TEMPLATES, main, make

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(template: str, tmp_path: Path) -> Path:
    return make(f"my-{template}", template, tmp_path)


def test_tests_of_the_project_pass(project: Path) -> None:
    """They crash each part of the topology."""
    test = (project / f"test_{project.name.replace('-', '_')}.py").read_text()
    assert "cluster.crash(" in test
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_code_is_formatted(project: Path) -> None:
    for command in (["check", "--select", "E,F,I,B,UP", "--ignore", "E501"], ["format", "--check"]):
        options = ["--isolated", "--config", "line-length = 100", "--no-cache"]
        done = subprocess.run(
            ["ruff", *command, *options, "."],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_no_placeholder_is_left(project: Path) -> None:
    for file in project.iterdir():
        assert not re.search(r"\bnew(?!er)[a-z]+\b", file.name + file.read_text()), file


def test_values_are_those_of_the_code(
    project: Path,
    template: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`kstorm values` writes the same; a YAML file is in the image too."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    values(TEMPLATES[template].reference.replace("newmodule", project.name.replace("-", "_")))
    of_code = yaml.safe_load(capsys.readouterr().out)
    of_code.pop("topologyFiles", None)
    shipped = yaml.safe_load((project / "values.yaml").read_text())
    assert {name: shipped[name] for name in of_code} == of_code


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("My_Words", "'My_Words' is not a name: use small letters, digits and -, such as my-words"),
        ("../words", "is not a name"),
        ("json", "'json' is the name of a Python module: choose another one"),
        ("there", "there exists already: choose another name, or remove it"),
    ],
)
def test_name_that_cannot_be_used(
    name: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert main([name]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("kstorm new: ")
    assert problem in line
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]


def test_folder_that_cannot_be_made_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forbidden(self: Path, *_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert main(["words"]) == 2
    says = f"kstorm new: {tmp_path / 'words'} cannot be made: Permission denied\n"
    assert capsys.readouterr().err == says
