"""Each service declares its imports: all of its modules import in an environment without other
services' packages."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.conftest import run

ROOT = Path(__file__).parents[2]
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))

# Modules of the library that a service imports only while it runs, or that run next to it.
IMPORTED_LATER = {
    "spout": [
        "kstorm.runtime.zookeeper.offset_store",
        "kstorm.runtime.queues.rabbitmq",
        "kstorm.runtime.queues.kestrel",
        "kstorm.cli.__main__",
        "kstorm.operations.traces.tree_exporter",
        "opentelemetry.exporter.otlp.proto.http",
        "puresasl",
    ]
}

IMPORT_ALL = """
import importlib, pkgutil, sys
package, *others = map(importlib.import_module, sys.argv[1:])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
    print(module.name)
"""


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the library and the services. An installed package then shows only its own files."""
    copy = tmp_path_factory.mktemp("sources")
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "shared", copy / "shared", ignore=leave_out)
    for service in SERVICES:
        shutil.copytree(ROOT / "services" / service, copy / service, ignore=leave_out)
    return copy


@pytest.fixture(scope="session")
def constraints(sources: Path) -> Path:
    """Pin the requirements of a service to the versions of the lock, and kstorm to the copy."""
    file = sources / "constraints.txt"
    library = (sources / "shared").as_uri()
    file.write_text(f"{(ROOT / 'requirements.lock').read_text()}\nkstorm @ {library}\n")
    return file


def stamp() -> str:
    """Return a digest of everything that determines an environment, except the code."""
    files = [ROOT / "requirements.lock", ROOT / "build-requirements.txt"]
    files += [ROOT / "shared" / "pyproject.toml", *sorted(ROOT.glob("services/*/pyproject.toml"))]
    contents = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(contents + sys.version.encode()).hexdigest()[:16]


def environment_of(service: str, install: list[str | Path], uv: str) -> Path:
    """Return an environment with the requirements of a service.

    There is one per state of the lock.
    """
    home = Path(os.environ.get("KSTORM_HOME", ROOT / ".kstorm")) / "cache" / "services"
    environment = home / f"{service}-{stamp()}"
    if not (environment / "complete").exists():
        for old in home.glob(f"{service}-*"):
            shutil.rmtree(old)
        run([uv, "venv", "--quiet", "--python", sys.executable, environment])
        command = [*install, "--python", environment]
        if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode:
            run(command)  # uv's cache is incomplete
        (environment / "complete").touch()
    return environment


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", SERVICES)
def test_service_imports_with_its_declared_requirements(
    service: str, uv: str, sources: Path, constraints: Path
) -> None:
    """The environment has the service and its requirements.

    It has the library only if that is one of them.
    """
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--no-sources"]
    install += [
        "--constraints",
        constraints,
        "--build-constraints",
        ROOT / "build-requirements.txt",
    ]
    environment = environment_of(service, [*install, sources / service], uv)
    python = environment / "bin" / "python"
    parts = [sources / service]
    if any(environment.glob("lib/python*/site-packages/kstorm-*.dist-info")):
        parts.append(sources / "shared")
    run([*install, "--python", environment, "--offline", "--no-deps", "--reinstall", *parts])
    modules = [f"kstorm_{service}", *IMPORTED_LATER.get(service, [])]
    imported = run([python, "-I", "-c", IMPORT_ALL, *modules])
    assert f"kstorm_{service}.__main__" in imported
