"""Run the web UI next to a local run. Its process ends with the run, and the run does not depend on
it."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from kstorm.runtime.base.settings import with_or_without_topology


def check_settings(*, page: bool) -> None:
    """Raise `ConfigError` for invalid settings of the services in the environment, and with `page`
    of the web UI.

    Otherwise their processes would exit because of them, after the servers have started.
    """
    with_or_without_topology(os.environ)
    if page and importlib.util.find_spec("kstorm_ui") is not None:
        importlib.import_module("kstorm_ui.ui_settings").from_environment()


@contextmanager
def web_ui(folder: Path, *, wanted: bool = True) -> Iterator[str]:
    """Yield the URL of the web UI for the runs in a folder. Empty if it is not wanted or not
    installed.

    The web UI responds about a second later. `check_settings` checks its settings.
    """
    if not wanted or importlib.util.find_spec("kstorm_ui") is None:
        yield ""
        return
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
