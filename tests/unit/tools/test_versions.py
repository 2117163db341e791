"""One version for all packages and the chart. The commands that `kstorm --help` lists."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kstorm.__main__ import GROUPS, HIDDEN
from kstorm.cli.__main__ import app
from kstorm.errors import ConfigError
from tools.packages import ROOT, folders, set_home, set_version, version


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


def needed(folder: Path) -> list[str]:
    """Return the requirements that name a package of this repository."""
    one = project(folder)
    lists = [one.get("dependencies", []), *one.get("optional-dependencies", {}).values()]
    found = [need for needs in lists for need in needs if need.startswith("kstorm")]
    if folder.name == "shared":  # its extras name each other
        found = [need for need in found if not need.startswith("kstorm[")]
    return found


def check(root: Path, number: str) -> None:
    for folder in folders(root):
        assert project(folder)["version"] == number
        assert needed(folder)
        assert all(need.endswith(f"=={number}") for need in needed(folder))
    chart = yaml.safe_load((root / "helm" / "kstorm" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == number


def test_packages_and_chart_have_the_version_of_the_library() -> None:
    """A service and the library of another version might not understand each other."""
    check(ROOT, version())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the files that have versions and links."""
    for file in [
        *ROOT.glob("*/*/pyproject.toml"),
        *ROOT.glob("helm/*/Chart.yaml"),
        ROOT / ".github/CODEOWNERS",
    ]:
        (copied := tmp_path / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)
    for name in ("pyproject.toml", "shared/pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_version_is_set_everywhere(copy: Path) -> None:
    set_version("12.3.4rc1", copy)
    check(copy, "12.3.4rc1")
    with pytest.raises(ConfigError, match=r"^soon is not a version: give one such as 0\.2\.0"):
        set_version("soon", copy)


def test_links_are_set_everywhere_and_again(copy: Path) -> None:
    """Without a public repository no package has links, because they would lead nowhere."""
    for folder in folders():
        assert "urls" not in project(folder)
    for home in ("https://github.com/first/kstorm", "https://github.com/second/kstorm/"):
        set_home(home, copy)
    for folder in folders(copy):
        assert project(folder)["urls"] == {
            "Homepage": "https://github.com/second/kstorm",
            "Documentation": "https://github.com/second/kstorm/tree/main/docs",
            "Changelog": "https://github.com/second/kstorm/blob/main/CHANGELOG.md",
            "Issues": "https://github.com/second/kstorm/issues",
        }
        assert project(folder)["version"] == version()
    chart = yaml.safe_load((copy / "helm/kstorm/Chart.yaml").read_text())
    assert chart["home"] == "https://github.com/second/kstorm"
    assert chart["sources"] == ["https://github.com/second/kstorm"]
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert [link["url"] for link in links] == [
        "https://github.com/second/kstorm/tree/main/docs",
        "https://github.com/second/kstorm/issues",
    ]
    assert "github.com/first" not in (copy / "helm/kstorm/Chart.yaml").read_text()
    assert (copy / ".github/CODEOWNERS").read_text().endswith("\n* @second\n")
    with pytest.raises(ConfigError, match=r"^kstorm\.org is not a repository on GitHub"):
        set_home("kstorm.org", copy)


def test_services_have_the_licence_of_the_library() -> None:
    library, *services = folders()
    for folder in services:
        assert project(folder)["license"] == project(library)["license"]
    for folder in folders():
        assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_help_lists_every_command() -> None:
    """`kstorm --help` has a list of its own, because Typer may be missing."""
    typers = {
        command.name or getattr(command.callback, "__name__", "").replace("_", "-"): command.hidden
        for command in app.registered_commands
    }
    typers |= {group.name or "": False for group in app.registered_groups}
    listed = {command.name for group in GROUPS.values() for command in group}
    assert {name for name, hidden in typers.items() if not hidden} == listed - {
        "new",
        "dev",
        "demo",
    }
    assert {name for name, hidden in typers.items() if hidden} == set(HIDDEN)


def test_extras_of_commands_exist() -> None:
    extras = set(project(ROOT / "shared")["optional-dependencies"])
    assert {command.extra for group in GROUPS.values() for command in group} <= extras | {""}
