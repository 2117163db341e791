"""Shows running topologies in a browser: `python -m kstorm_ui`, `kstorm-ui`, `./run ui`.

With `--runs DIR` it shows the topologies of this machine, otherwise those of a Kubernetes
namespace. Without options, it shows those in `.kstorm/runs` if a topology runs there.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kstorm.errors import KstormError
from kstorm.printable import printable
from kstorm.runtime.run_files import find, runs_folder
from kstorm_ui.serve import serve
from kstorm_ui.ui_settings import UiSettings, from_environment


def main() -> None:
    """Entry point. A user's mistake prints one line and exits with 2."""
    try:
        serve(_settings(from_environment()), lambda line: print(line, flush=True))
    except KstormError as error:
        print(f"kstorm ui: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)


def _settings(found: UiSettings) -> UiSettings:
    parser = argparse.ArgumentParser(
        prog="kstorm-ui", description="Show running topologies in a browser."
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help="show topologies of this machine: the folder of one run, or of several",
    )
    parser.add_argument(
        "--namespace",
        "-n",
        help="show the topologies of this Kubernetes namespace (default: the context's)",
    )
    parser.add_argument(
        "--context", help="use this context of the kubeconfig (default: its current one)"
    )
    parser.add_argument(
        "--port",
        type=int,
        help=f"listen on this port; 0 selects a free one (default: {found.port})",
    )
    given: Mapping[str, object] = {
        name: value for name, value in vars(parser.parse_args()).items() if value is not None
    }
    settings = replace(found, **given)  # type: ignore[arg-type]
    if (
        settings.runs is None
        and settings.namespace is None
        and settings.context is None
        and any(find(runs_folder()))
    ):
        return replace(settings, runs=runs_folder())
    return settings


if __name__ == "__main__":
    main()
