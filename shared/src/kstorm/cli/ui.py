"""`kstorm ui`: show the topologies of a namespace in a browser, with the user's own kubeconfig.

    kstorm ui --namespace streams

The web UI is a separate package, kstorm-service-ui. It listens only on this machine.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kstorm.cli.target_options import Context, Namespace
from kstorm.errors import ConfigError


def ui(
    namespace: Namespace = None,
    context: Context = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Show topologies on this machine instead, from this folder of runs.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on. 0: any free port.")
    ] = None,
) -> None:
    """Show topologies in a browser until Ctrl-C."""
    if importlib.util.find_spec("kstorm_ui") is None:
        raise ConfigError(
            "the web UI is a separate package, which is not installed: pip install kstorm-service-ui"
        )
    given = {"--namespace": namespace, "--context": context, "--runs": runs, "--port": port}
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    # Uses the same Python interpreter, without a shell.
    os.execv(sys.executable, [sys.executable, "-m", "kstorm_ui", *options])  # noqa: S606
