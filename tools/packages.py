"""`python -m tools.packages VERB`: the packages that users install, kstorm and its services.

`build FOLDER` builds their wheels and sdists, and `check FOLDER` checks them with twine. `chart
FOLDER` packs the chart. `version NUMBER` sets the version of all of them, and of the chart. The
version in shared/pyproject.toml is the source of the others. `home URL` sets the links of all of
them and of the chart, and the owner in CODEOWNERS. They have no links until there is a public
repository.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.errors import ConfigError, LocalError
from tools.release.chart import pack

ROOT: Final = Path(__file__).resolve().parents[1]
_LINKS: Final = re.compile(r"\[project\.urls\]\n(?:\w+ = .*\n)+\n")
_CHART_LINKS: Final = re.compile(
    r"(?m)^(?:home: .*\n|sources: .*\n|  artifacthub\.io/links: .*\n(?:    .*\n)+)"
)
_TWINE: Final = "twine==7.0.0"
_NUMBER: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def folders(root: Path = ROOT) -> list[Path]:
    """Return the folders of the packages: the library first, then its services."""
    return [
        root / "shared",
        *sorted(path.parent for path in root.glob("services/*/pyproject.toml")),
    ]


def version(root: Path = ROOT) -> str:
    project = tomllib.loads((root / "shared" / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def set_version(new: str, root: Path = ROOT) -> None:
    """Write the version to all packages, to the versions that they need of each other, and to the chart."""
    if not _NUMBER.fullmatch(new):
        raise ConfigError(f"{new} is not a version: give one such as 0.2.0 or 0.2.0rc1")
    for folder in [root, *folders(root)]:
        file = folder / "pyproject.toml"
        text = re.sub(r'(?m)^version = ".*"$', f'version = "{new}"', file.read_text(), count=1)
        file.write_text(
            re.sub(r'("kstorm(?:-service-\w+)?(?:\[[\w,]+\])?)==[^"]+"', rf'\1=={new}"', text)
        )
    chart = root / "helm" / "kstorm" / "Chart.yaml"
    chart.write_text(re.sub(r"(?m)^(version|appVersion): .*$", rf"\1: {new}", chart.read_text()))


def set_home(url: str, root: Path = ROOT) -> None:
    """Write the links to a repository on GitHub to all packages and to the chart."""
    home = url.removesuffix("/")
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", home):
        raise ConfigError(
            f"{url} is not a repository on GitHub: give one such as https://github.com/NAME/kstorm"
        )
    links = (
        "[project.urls]\n"
        f'Homepage = "{home}"\n'
        f'Documentation = "{home}/tree/main/docs"\n'
        f'Changelog = "{home}/blob/main/CHANGELOG.md"\n'
        f'Issues = "{home}/issues"\n\n'
    )
    for folder in folders(root):
        file = folder / "pyproject.toml"
        text = _LINKS.sub("", file.read_text())
        # Before the next table, because the keys of [project] end there.
        head, mark, rest = text.partition("\n\n[")
        file.write_text(f"{head}\n\n{links}{mark.lstrip()}{rest}")
    owners = root / ".github" / "CODEOWNERS"
    owner = home.split("/")[3]
    owners.write_text(re.sub(r"(?m)^\* @.*$", f"* @{owner}", owners.read_text()))
    chart = root / "helm" / "kstorm" / "Chart.yaml"
    text = _CHART_LINKS.sub("", chart.read_text())
    linked = (
        "  artifacthub.io/links: |\n"
        f"    - {{name: Documentation, url: {home}/tree/main/docs}}\n"
        f"    - {{name: Support, url: {home}/issues}}\n"
    )
    chart.write_text(
        f"home: {home}\nsources: [{home}]\n{text}".replace(
            "annotations:\n", f"annotations:\n{linked}"
        )
    )


def build(target: Path, root: Path = ROOT) -> None:
    """Build a wheel and an sdist of every package, the wheels from the sdists, as installers do."""
    uv = os.environ.get("UV") or "uv"
    constraints = root / "build-requirements.txt"
    for folder in folders(root):
        command: list[str | Path] = [
            uv,
            "build",
            "--quiet",
            "--build-constraints",
            constraints,
            "--out-dir",
            target,
            folder,
        ]
        if subprocess.run(command, check=False).returncode:
            raise LocalError(f"{folder.name} was not built, as shown above")


def check(target: Path) -> None:
    """Check the built packages as an index does. Prints a note if twine is not to be had."""
    uv = os.environ.get("UV") or "uv"
    twine = [uv, "tool", "run", "--quiet", "--from", _TWINE, "twine"]
    if subprocess.run([*twine, "--version"], capture_output=True, check=False).returncode:
        print(f"{_TWINE} is not to be had here: the descriptions were not checked", file=sys.stderr)
        return
    files = sorted(file for file in target.iterdir() if file.suffix in (".whl", ".gz"))
    checked = subprocess.run([*twine, "check", "--strict", *files], check=False)
    if checked.returncode or not files:
        raise LocalError(f"the packages in {target} were refused, as shown above")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.packages")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build").add_argument("folder", type=Path)
    verbs.add_parser("check").add_argument("folder", type=Path)
    chart = verbs.add_parser("chart")
    chart.add_argument("folder", type=Path)
    chart.add_argument("--images", type=Path, metavar="FILE", help="their names with digests")
    verbs.add_parser("version").add_argument("number")
    verbs.add_parser("home").add_argument("url")
    options = parser.parse_args(arguments)
    if options.verb == "build":
        build(options.folder.absolute())
    elif options.verb == "check":
        check(options.folder.absolute())
    elif options.verb == "chart":
        images = options.images.read_text().split() if options.images else []
        print(pack(options.folder.absolute(), images))
    elif options.verb == "home":
        set_home(options.url)
    else:
        set_version(options.number)
    return 0


if __name__ == "__main__":
    sys.exit(run_command("kstorm", main))
