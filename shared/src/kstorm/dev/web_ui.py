"""Run the web UI next to a local run. Its process ends with the run, and the run does not depend on
it.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstorm.dev.ports import reserve_port
from kstorm.dev.processes import ManagedProcess


@contextmanager
def web_ui(folder: Path, *, wanted: bool = True) -> Iterator[str]:
    """Yield the URL of the web UI for the runs in a folder. Empty if it is not wanted or not
    installed.

    The web UI responds about a second later. Raises `ConfigError` for invalid settings in the
    environment. Otherwise the web UI's process would exit because of them, and the user would not
    notice.
    """
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
