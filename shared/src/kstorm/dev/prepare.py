"""The last part of the set-up, in the new environment: fetch the jars and, in parallel, compile the
bytecode of the processes.

Without bytecode each process of a topology compiles 1,200 modules when it starts. `uv pip install --compile-bytecode` would
compile all 5,900 modules of the packages, six times the work. So one process imports the modules of a topology's
processes while the jars arrive. `python -m kstorm.dev.prepare` is that process.
"""

import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sys import executable
from typing import Final

from kstorm.dev import jars
from kstorm.dev.logged_command import LoggedCommand
from kstorm.dev.stage_progress import StageProgress

_MODULES: Final = (
    "kstorm.dev.demo.run",
    "kstorm_spout.__main__",
    "kstorm_bolt.__main__",
    "kstorm_acker.__main__",
    "kstorm_ui.__main__",
    "kstorm_pipeline.early_start",
    "examples.wordcount.topology",
    "examples.wordcount.tables",
)
_COMPILED: Final = "compiled"
_LOOK_SECS: Final = 0.2


def prepare() -> None:
    """Fetch the jars, patch the installed `pyspark` and compile the bytecode, each once."""
    with _compiling():
        jars.prepare()


@contextmanager
def _compiling() -> Iterator[None]:
    """Compile during the block, and wait for the end. A file marks that it is done. The set-up
    removes this file when it changes the environment."""
    home = os.environ.get("KSTORM_HOME")
    if home is None or (Path(home) / _COMPILED).exists():
        yield
        return
    command = [executable, "-m", "kstorm.dev.prepare"]
    with LoggedCommand(command, Path(home) / "setup.log") as running:
        yield
        if running.returncode is None:
            with StageProgress("bytecode") as progress:
                while running.returncode is None:
                    progress.show()
                    time.sleep(_LOOK_SECS)
        (Path(home) / _COMPILED).touch()


def _import_all() -> None:
    for name in _MODULES:
        with suppress(ImportError):  # a service that is not installed
            importlib.import_module(name)


if __name__ == "__main__":
    os.nice(5)
    _import_all()
