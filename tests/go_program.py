"""Programs that tests run and no package of ours brings: Go builds them from their modules, once for all checkouts.

Go proves by its database of sums that a module is what everyone else gets under that version.
"""

import os
import shutil
import subprocess
from pathlib import Path

from kstorm.errors import LocalError
from kstorm.local.paths import cache_directory, exclusive


def go_program(package: str, version: str) -> Path:
    """The program of a Go package, such as `example.org/tool/cmd/tool`, of its module's version.

    It is in kstorm's cache, and is built there if it is not yet: minutes on two cores. Raises `LocalError` without Go, or with what
    Go complains of.
    """
    name = package.rpartition("/")[2]
    folder = cache_directory() / f"{name}-{version}"
    program = folder / name
    with exclusive(folder / ".lock"):
        if not program.exists():
            if shutil.which("go") is None:
                raise LocalError(f"these tests build {package} by Go, and there is no `go` on PATH: install Go")
            build = folder / "build"
            environment = {**os.environ, "GOBIN": str(build), "CGO_ENABLED": "0"}
            command = ["go", "install", "-ldflags=-s -w", f"{package}@{version}"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise LocalError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
            (build / name).rename(program)
            build.rmdir()
    return program
