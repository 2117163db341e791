"""The wheels and sdists that users install, and the command without extras."""

import email
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from kstorm.__main__ import GROUPS, Command
from tests.services.conftest import ROOT, clean_environment, run
from tools.packages import folders, version

NAMES = ["kstorm", *(f"kstorm_service_{folder.name}" for folder in folders()[1:])]
COMMANDS = [command for group in GROUPS.values() for command in group if command.extra]


def metadata(packages: Path, name: str) -> list[bytes]:
    """Return the metadata in the wheel and in the sdist of a package."""
    stem = f"{name}-{version()}"
    with zipfile.ZipFile(packages / f"{stem}-py3-none-any.whl") as wheel:
        found = [wheel.read(f"{stem}.dist-info/METADATA")]
    with tarfile.open(packages / f"{stem}.tar.gz") as sdist:
        file = sdist.extractfile(f"{stem}/PKG-INFO")
        assert file is not None
        return [*found, file.read()]


@pytest.mark.parametrize("name", NAMES)
def test_metadata_is_complete(packages: Path, name: str) -> None:
    """A page of a package index shows a description, a licence and classifiers."""
    for text in metadata(packages, name):
        Metadata.from_email(text)  # raises if anything is invalid
        fields = email.message_from_bytes(text)
        assert fields["Version"] == version()
        assert fields["License-Expression"] == "Apache-2.0"
        assert fields["License-File"] == "LICENSE"
        assert fields["Description-Content-Type"] == "text/markdown"
        assert str(fields.get_payload()).startswith(f"# {fields['Name']}\n")
        assert fields["Keywords"]
        assert fields.get_all("Classifier")


@pytest.mark.parametrize("name", NAMES)
def test_wheel_has_the_licence_and_only_its_own_modules(packages: Path, name: str) -> None:
    stem = f"{name}-{version()}"
    with zipfile.ZipFile(packages / f"{stem}-py3-none-any.whl") as wheel:
        licence = wheel.read(f"{stem}.dist-info/licenses/LICENSE").decode()
        tops = {path.partition("/")[0] for path in wheel.namelist()}
    assert licence == (ROOT / "LICENSE").read_text()
    assert tops == {name.replace("_service", ""), f"{stem}.dist-info"}


def test_command_without_extras_prints_help_and_version(bare: Path) -> None:
    kstorm = bare / "bin" / "kstorm"
    environment = clean_environment(bare)
    assert run([kstorm, "--version"], bare, environment) == f"kstorm {version()}\n"
    listed = run([kstorm, "--help"], bare, environment)
    for command in COMMANDS:
        assert f"  {command.name} " in listed
    assert run([kstorm], bare, environment) == listed


def test_minute_of_the_readme_needs_no_extra(bare: Path, tmp_path: Path) -> None:
    """It also makes a project."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", (ROOT / "README.md").read_text())
    for name, block in zip(("hello.py", "crash.py"), blocks, strict=True):
        (tmp_path / name).write_text(block)
    environment = clean_environment(bare)
    assert "'the': 200" in run([bare / "bin" / "python", "crash.py"], tmp_path, environment)
    run([bare / "bin" / "kstorm", "new", "my-words"], tmp_path, environment)
    assert (tmp_path / "my-words" / "my_words.py").is_file()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_missing_extra_is_named_in_one_line(bare: Path, command: Command) -> None:
    done = subprocess.run(
        [bare / "bin" / "kstorm", command.name, "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=bare,
        env=clean_environment(bare),
    )
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"kstorm: `kstorm {command.name}` needs the package ")
    assert line.endswith(f"which is not installed: pip install 'kstorm[{command.extra}]'")
