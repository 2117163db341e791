"""The page beside a run of this machine: a process that ends with the run, and whose end is no matter to it."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstorm.local.ports import reserve_port
from kstorm.local.processes import ManagedProcess


@contextmanager
def page(folder: Path, *, wanted: bool = True) -> Iterator[str]:
    """Give the URL of the page over what runs in a folder; empty if it is not wanted, or not installed. It answers a second
    later. Raises `ConfigError` on what the environment says of it and cannot be: it would die of that unseen."""
    if not wanted or importlib.util.find_spec("kstorm_ui") is None:
        yield ""
        return
    importlib.import_module("kstorm_ui.settings").from_environment()
    port = reserve_port()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "kstorm_ui",
        "--runs",
        folder,
        "--port",
        str(port),
    ]
    process = ManagedProcess("ui", command, workdir=folder)
    process.start()
    try:
        yield f"http://localhost:{port}/"
    finally:
        process.stop()
