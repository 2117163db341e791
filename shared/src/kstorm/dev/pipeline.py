"""`./run pipeline …`: run the command `kstorm-pipeline` with this machine's jars and Java."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kstorm.dev.class_archive import java_option, short_run_options
from kstorm.dev.command_exit import run_command
from kstorm.dev.jars import s3_jars, spark_jars
from kstorm.dev.java import spark_environment
from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError

MODULE: Final = "kstorm_pipeline"
_PLACES: Final = ("KSTORM_PIPELINE_TABLES", "KSTORM_PIPELINE_CHECKPOINTS")
_LONGEST_SECS: Final = 900.0
_LOOK_SECS: Final = 1.0


def check_installed() -> None:
    """Raise `LocalError` if the pipeline is not installed."""
    if find_spec(MODULE) is None:
        raise LocalError(f"the package {MODULE} is not installed: pip install 'kstorm[demo]'")


def pipeline_process(
    name: str,
    command: str,
    arguments: Mapping[str, Any],
    workdir: Path,
    *,
    begins_at: Path | None = None,
    scratch: Path | None = None,
) -> ManagedProcess:
    """Return a process with that name for a short command of the pipeline. Raises `LocalError` if
    the pipeline is not installed.

    With `begins_at`, the process starts Spark immediately, and runs its command when that file
    exists. `scratch` is an existing folder for temporary files; by default they are in `/tmp`,
    where Spark leaves some if it is killed.
    """
    check_installed()
    given = {**arguments, "--jars": ",".join(map(str, spark_jars()))}
    flags = [str(part) for pair in given.items() for part in pair]
    environment, options = spark_environment(), short_run_options()
    if scratch is not None:
        environment |= {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        options = f"{options} {java_option('-Djava.io.tmpdir', scratch)}"
    flags.append(f"--driver-java-options={options}")
    module = [MODULE] if begins_at is None else [f"{MODULE}.early_start", str(begins_at)]
    words = [sys.executable, "-m", *module, command, *flags]
    return ManagedProcess(name, words, workdir=workdir, environment=environment)


def await_end(process: ManagedProcess, started: float, on_look: Callable[[], None]) -> None:
    """Wait until such a process has ended, and call `on_look` each second. Raises `LocalError` if
    it still runs 15 minutes after `started`, a time of the monotonic clock."""
    while process.alive:
        if time.monotonic() - started > _LONGEST_SECS:
            raise LocalError(
                f"the {process.name} is still running after {_LONGEST_SECS:g} s; its log is {process.log_path}"
            )
        on_look()
        process.wait(_LOOK_SECS)


def jars_for(words: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """The jars that a command needs. The jars for S3 are half a gigabyte, so they are fetched only for tables on S3."""
    places = (*words, *(environment.get(name, "") for name in _PLACES))
    on_s3 = any(place.rpartition("=")[2].startswith("s3a://") for place in places)
    return [*spark_jars(), *(s3_jars() if on_s3 else ())]


def main() -> int:
    """Become the pipeline. Raises `LocalError` if the pipeline is not installed, or if there is no
    Java."""
    check_installed()
    jars = {"KSTORM_PIPELINE_JARS": ",".join(map(str, jars_for(sys.argv[1:], os.environ)))}
    os.execve(  # noqa: S606
        sys.executable,
        [sys.executable, "-m", MODULE, *sys.argv[1:]],
        {**jars, **os.environ, **spark_environment()},
    )


if __name__ == "__main__":
    sys.exit(run_command("pipeline", main))
