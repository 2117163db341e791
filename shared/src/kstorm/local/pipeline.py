"""`./run pipeline …`: the command `kstorm-pipeline`, with the jars and the Java that this machine has for it."""

import os
import sys
from importlib.util import find_spec
from typing import Final

from kstorm.errors import LocalError
from kstorm.local.cli import run_command
from kstorm.local.jars import spark_jars
from kstorm.local.java import spark_environment

_MODULE: Final = "kstorm_pipeline"


def main() -> int:
    """Become the pipeline; raises `LocalError` where it is not installed, or where there is no Java."""
    if find_spec(_MODULE) is None:
        raise LocalError(f"the package {_MODULE} is not installed: start by ./run, which installs it")
    jars = {"KSTORM_PIPELINE_JARS": ",".join(map(str, spark_jars()))}
    os.execve(  # noqa: S606
        sys.executable,
        [sys.executable, "-m", _MODULE, *sys.argv[1:]],
        {**jars, **os.environ, **spark_environment()},
    )


if __name__ == "__main__":
    sys.exit(run_command("pipeline", main))
