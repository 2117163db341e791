"""Environments with the packages as users install them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.packages import build

ROOT = Path(__file__).parents[2]


def run(
    command: list[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its output. A failure shows the output."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}"
    return done.stdout


def clean_environment(venv: Path) -> dict[str, str]:
    """Return the variables of a user who has activated the environment, without those of `./run`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KSTORM_HOME", "PYTHON", "VIRTUAL_ENV", "PYTEST"))
    }
    return kept | {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}


@pytest.fixture(scope="session")
def uv() -> str:
    """Return the uv that `./run` uses."""
    found = shutil.which(
        os.environ.get("UV", ROOT / ".kstorm" / "boot" / "bin" / "uv")
    ) or shutil.which("uv")
    assert found, "there is no uv: start the tests by ./run test"
    return found


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory, uv: str) -> Path:
    """Return a folder with the wheels and sdists of all packages."""
    folder = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV", str(uv))
        build(folder)
    return folder


def install(uv: str, packages: Path, venv: Path, *requirements: str) -> None:
    """Install requirements from the built packages into a new environment, as locked."""
    run([uv, "venv", "--quiet", "--python", sys.executable, venv])
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", venv]
    for lock in ("requirements.lock", "requirements-dev.lock"):
        command += ["--constraints", ROOT / lock]
    command += ["--find-links", packages, "--reinstall-package", "kstorm", *requirements]
    # uv's cache may be incomplete.
    if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode:
        run(command)


@pytest.fixture(scope="session")
def bare(uv: str, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with kstorm and what it always needs."""
    venv = tmp_path_factory.mktemp("bare") / "venv"
    install(uv, packages, venv, "kstorm")
    return venv
