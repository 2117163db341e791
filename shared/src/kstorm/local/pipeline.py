"""`./run pipeline …`: the command `kstorm-pipeline`, with the jars and the Java that this machine has for it."""

import os
import sys
from importlib.util import find_spec
from typing import Final

from kstorm.errors import LocalError
from kstorm.local.cli import run_command
from kstorm.local.jars import spark_jars
from kstorm.local.java import spark_environment

MODULE: Final = "kstorm_pipeline"


def check_installed() -> None:
    """Raises `LocalError` where the pipeline is not installed."""
    if find_spec(MODULE) is None:
        raise LocalError(f"the package {MODULE} is not installed: start by ./run, which installs it")


def main() -> int:
    """Become the pipeline; raises `LocalError` where it is not installed, or where there is no Java."""
    check_installed()
    jars = {"KSTORM_PIPELINE_JARS": ",".join(map(str, spark_jars()))}
    os.execve(  # noqa: S606
        sys.executable,
        [sys.executable, "-m", MODULE, *sys.argv[1:]],
        {**jars, **os.environ, **spark_environment()},
    )


if __name__ == "__main__":
    sys.exit(run_command("pipeline", main))
