"""Programs that tests run and no package of ours brings: Go builds them from their modules, once for all checkouts.

Go proves by its database of sums that a module is what everyone else gets under that version.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kstorm.errors import LocalError
from kstorm.local.paths import cache_directory, exclusive


def go_program(package: str, version: str) -> Path:
    """The program of a Go package, such as `example.org/tool/cmd/tool`, of its module's version; it needs no library of C's.

    It is in kstorm's cache, and is built there if it is not yet: minutes on two cores. Raises `LocalError` without Go, or with what
    Go complains of.
    """
    folder = cache_directory() / f"{package.replace('/', '-')}-{version}"
    program = folder / package.rpartition("/")[2]
    with exclusive(folder / ".lock"):
        if not program.exists():
            # Not `go install`, which refuses a module that replaces another.
            with tempfile.TemporaryDirectory(dir=folder) as module:
                _go(module, "mod", "init", "build")
                _go(module, "get", f"{package}@{version}")
                _go(module, "build", "-ldflags=-s -w", "-o", "program", package)
                (Path(module) / "program").rename(program)
    return program


def go_source(module: str, version: str) -> Path:
    """The folder with the source of a module, for what it has besides programs."""
    return Path(
        json.loads(_go(tempfile.gettempdir(), "mod", "download", "-json", f"{module}@{version}"))[
            "Dir"
        ]
    )


def _go(folder: str, *arguments: str) -> str:
    if shutil.which("go") is None:
        raise LocalError(
            "these tests build programs by Go, and there is no `go` on PATH: install Go"
        )
    command = ["go", *arguments]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LocalError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
