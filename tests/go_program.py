"""Programs that tests run and that have no Python package. Go builds them once for all checkouts.

Go's checksum database proves that a module has the same content for everyone.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kstorm.dev.paths import cache_directory, exclusive
from kstorm.errors import LocalError


def go_program(package: str, version: str) -> Path:
    """Return the program of a Go package, such as `example.org/tool/cmd/tool`, in a module version.

    Needs no C library. The program is in kstorm's cache. If it is missing, Go builds it, which
    takes minutes on two cores. Raises `LocalError` if Go is missing or reports an error.
    """
    folder = cache_directory() / f"{package.replace('/', '-')}-{version}"
    program = folder / package.rpartition("/")[2]
    with exclusive(folder / ".lock"):
        if not program.exists():
            # `go install` rejects a module that replaces another.
            with tempfile.TemporaryDirectory(dir=folder) as module:
                _go(module, "mod", "init", "build")
                _go(module, "get", f"{package}@{version}")
                _go(module, "build", "-ldflags=-s -w", "-o", "program", package)
                (Path(module) / "program").rename(program)
    return program


def run_go(source: Path, module: str, version: str, text: str) -> str:
    """Run a Go file that imports packages of a module, with `text` as its input. Return its output.

    Raises `LocalError` as `go_program` does, and if the program reports an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(source, folder)
        _go(folder, "mod", "init", "build")
        _go(folder, "get", f"{module}@{version}")
        return _go(folder, "run", source.name, text=text)


def go_source(module: str, version: str) -> Path:
    """Return the folder with a module's source, for its other files."""
    return Path(
        json.loads(_go(tempfile.gettempdir(), "mod", "download", "-json", f"{module}@{version}"))[
            "Dir"
        ]
    )


def _go(folder: str, *arguments: str, text: str = "") -> str:
    if shutil.which("go") is None:
        raise LocalError(
            "these tests build programs by Go, and there is no `go` on PATH: install Go"
        )
    command = ["go", *arguments]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
