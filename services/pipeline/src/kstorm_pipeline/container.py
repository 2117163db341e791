"""The entry point of the image for Spark on Kubernetes, with the argument `executor` or `driver`.

An executor finds its settings in its environment and becomes Spark's executor in a JVM. A driver is
started by `spark-submit --deploy-mode cluster`, which an operator for SparkApplications calls. It
has arguments and becomes `spark-submit` in client mode. (The driver of a plain Deployment just
calls `run`.) Spark's own image does both in a shell script.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.session import JVM_OPTIONS
from kstorm_pipeline.setting_values import PREFIX, find_jars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

ROLES = ("driver", "executor")
"""Values of the first argument besides the commands of `__main__`."""

_SPARK = Path(pyspark.__file__).parent
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""An executor's arguments, each with the environment variable that Spark sets for it."""


def become(role: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the driver or the executor.

    Raises SettingsError if Spark did not start this process.
    """
    command = (
        driver_command(arguments, environment)
        if role == "driver"
        else executor_command(environment)
    )
    # Spark writes files to the working directory, and the root may be read-only.
    os.chdir(tempfile.gettempdir())
    os.execvpe(command[0], command, environment)  # noqa: S606


def executor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command line of an executor's JVM."""
    java = (
        Path(environment["JAVA_HOME"], "bin", "java")
        if environment.get("JAVA_HOME")
        else Path("java")
    )
    heap = _variable(environment, "SPARK_EXECUTOR_MEMORY")
    arguments = [
        part for flag, name in _ARGUMENTS.items() for part in (flag, _variable(environment, name))
    ]
    places = (
        environment.get("SPARK_CONF_DIR"),
        environment.get("SPARK_CLASSPATH"),
        f"{_SPARK}/jars/*",
    )
    classpath = ":".join(filter(None, places))
    return [
        str(java),
        *_java_options(environment),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        classpath,
        _BACKEND,
        *arguments,
    ]


def driver_command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command line of `spark-submit`, with the image's jars and log options.

    No session can add the jars and options to a JVM that is already running.
    """
    address = _variable(environment, "SPARK_DRIVER_BIND_ADDRESS")
    jars = find_jars("jars", environment.get(f"{PREFIX}JARS", ""))
    settings = {
        "spark.driver.bindAddress": address,
        "spark.driver.defaultJavaOptions": JVM_OPTIONS,
        "spark.driver.extraClassPath": ":".join(jars),
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [str(_SPARK / "bin" / "spark-submit"), *given, "--deploy-mode", "client", *arguments]


def _java_options(environment: Mapping[str, str]) -> list[str]:
    """Return `SPARK_JAVA_OPT_0`, `SPARK_JAVA_OPT_1` and so on, in their order."""
    found = {
        int(match[1]): value
        for name, value in environment.items()
        if (match := re.fullmatch(r"SPARK_JAVA_OPT_(\d+)", name))
    }
    return [found[number] for number in sorted(found)]


def _variable(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable that Spark sets. Raises SettingsError if it is missing."""
    if not environment.get(name):
        raise SettingsError(
            f"{name} is not set: Spark on Kubernetes starts drivers and executors; "
            "start the pipeline with `run`"
        )
    return environment[name]
