"""The jars of Kafka's server and of Spark's connectors: fetched once, pinned, verified on every use.

Each set of jars has a list beside this file, `<set>.sha256`, with a line `<SHA-256> <group>:<artifact>:<version>` for
every jar, nothing left to be resolved. The rule: a path that leaves this module is a file whose content is the one in
the list. `pyspark` ships Apache Ivy, which does the fetching from its default repository; `KSTORM_IVY_SETTINGS` names an
Ivy settings file for a mirror. `pyspark` ships ZooKeeper's server as well. Where what it ships has known holes, one set has
mended versions, which take the places of the others there (`kstorm.local.mend`).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from xml.sax.saxutils import quoteattr

from kstorm.errors import LocalError
from kstorm.local.java import find_java, spark_home
from kstorm.local.mend import mend
from kstorm.local.paths import cache_directory, exclusive
from kstorm.local.trust import trust_options

KAFKA_VERSION: Final = "4.1.2"
# The last series that can keep its metadata in ZooKeeper, for the test of `ZkHosts` alone.
OLD_KAFKA_VERSION: Final = "3.9.2"
SPARK_VERSION: Final = "4.0.0"
DELTA_VERSION: Final = "4.0.0"
# What `pyspark` ships of Hadoop.
HADOOP_VERSION: Final = "3.4.1"

KAFKA_SET: Final = f"kafka-{KAFKA_VERSION}"
OLD_KAFKA_SET: Final = f"kafka-{OLD_KAFKA_VERSION}"
SPARK_SET: Final = f"spark-{SPARK_VERSION}"
S3_SET: Final = f"s3-{HADOOP_VERSION}"
MENDED_SET: Final = f"mended-{SPARK_VERSION}"

_ZOOKEEPER_SERIES: Final = "3.9."
_ZOOKEEPER_PARTS: Final = (
    *("zookeeper", "zookeeper-jute", "metrics-core", "snappy-java", "commons-io"),
    *(
        "netty-buffer",
        "netty-codec",
        "netty-common",
        "netty-handler",
        "netty-resolver",
        "netty-transport",
    ),
    *(
        "netty-transport-classes-epoll",
        "netty-transport-native-unix-common",
    ),  # looked into by a server with TLS
    *("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)

# Ivy's default repository, asked for the jars alone: with everything pinned, a module's description tells nothing new.
_IVY_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="default"/>
  <resolvers><ibiblio name="default" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_IVY_PROBLEMS: Final = (
    r"Server access error.*",
    r":: (.*: not found)",
    r"\[FAILED +\].*",
    r".*Exception.*",
)


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """One line of a list: a jar's coordinates and the SHA-256 of its content."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the jar's file in the cache."""
        return f"{self.artifact}-{self.version}.jar"


def kafka_jars() -> list[Path]:
    """The jars of Kafka's server, complete with its logging; fetched if they are not in the cache yet."""
    return _jars(KAFKA_SET)


def old_kafka_jars() -> list[Path]:
    """The jars of a Kafka server that can run with ZooKeeper; fetched by the test that starts one, not by `prepare`."""
    return _jars(OLD_KAFKA_SET)


def spark_jars() -> list[Path]:
    """The jars that Spark needs for Kafka and Delta beside its own, for `spark.jars`; fetched if not in the cache."""
    return _jars(SPARK_SET)


def s3_jars() -> list[Path]:
    """The jars that Spark needs for tables on S3 beside those of `spark_jars`; fetched by who asks for them, not by `prepare`."""
    return _jars(S3_SET)


def mended_jars() -> list[Path]:
    """The jars that take the places of others in the installed `pyspark`; fetched if not in the cache."""
    return _jars(MENDED_SET)


def zookeeper_classpath() -> list[Path]:
    """The jars of ZooKeeper's server, all from the installed `pyspark`, which `prepare` has mended."""
    return [_spark_part(name) for name in _ZOOKEEPER_PARTS]


def prepare() -> None:
    """Have everything in place that the demo and the integration tests take from the cache."""
    kafka_jars()
    spark_jars()
    mend_spark()


def mend_spark() -> None:
    """Replace what has known holes of the jars that the installed `pyspark` ships, once."""
    replacements = mended_jars()
    try:
        with exclusive(spark_home() / ".mending"):
            mend(spark_home() / "jars", replacements)
    except OSError as error:
        raise LocalError(
            f"the jars in {spark_home()} cannot be replaced by mended ones ({error.strerror}): start by ./run, which installs"
            " pyspark where it may write"
        ) from None


def lay_out(folder: Path) -> None:
    """Copy the jars of the container images to `folder`, which must not be there: kafka, zookeeper, spark, and mended ones."""
    sets = (
        ("kafka", kafka_jars()),
        ("zookeeper", zookeeper_classpath()),
        ("spark", spark_jars()),
        ("mended", mended_jars()),
    )
    for name, paths in sets:
        (folder / name).mkdir(parents=True)
        for path in paths:
            shutil.copyfile(path, folder / name / path.name)


def list_path(set_name: str) -> Path:
    """The file beside this module that lists the jars of a set."""
    return Path(__file__).with_name(f"{set_name}.sha256")


def read_list(set_name: str) -> list[PinnedJar]:
    """The jars of a set, from its list; `#` begins a comment line."""
    jars = []
    for line in list_path(set_name).read_text().splitlines():
        if line and not line.startswith("#"):
            digest, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(PinnedJar(group, artifact, version, digest))
    return jars


def ivy_command(*arguments: str | Path) -> list[str | Path]:
    """The command that runs the Ivy inside `pyspark` with these arguments."""
    java = find_java()
    trust = trust_options() if java.bundled else []
    return [java.executable, *trust, "-cp", _spark_part("ivy"), "org.apache.ivy.Main", *arguments]


def _jars(set_name: str) -> list[Path]:
    directory = cache_directory() / "jars" / set_name
    pinned = read_list(set_name)
    if _missing(pinned, directory):
        with exclusive(directory.with_name(f".{set_name}.lock")):
            if missing := _missing(
                pinned, directory
            ):  # another process may have fetched them while this one waited
                _fetch(set_name, missing, directory)
    _verify(pinned, directory)
    return [directory / jar.file_name for jar in pinned]


def _missing(pinned: list[PinnedJar], directory: Path) -> list[PinnedJar]:
    """The jars of a list that are not there: all of them, or those that a new version of kstorm needs more."""
    return [jar for jar in pinned if not (directory / jar.file_name).exists()]


def _fetch(set_name: str, pinned: list[PinnedJar], directory: Path) -> None:
    """Fetch into a directory beside the final one, and move the jars when all are right; a failed attempt can be resumed."""
    unfinished = directory.with_name(f".{set_name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    settings = unfinished / "settings.xml"
    settings.write_text(_IVY_SETTINGS)
    module = unfinished / "ivy.xml"
    module.write_text(_ivy_module(pinned))
    fetched = unfinished / "jars"
    command = ivy_command(
        "-settings", os.environ.get("KSTORM_IVY_SETTINGS", settings), "-ivy", module, "-cache", unfinished / "ivy",
        "-retrieve", fetched / "[artifact]-[revision].[ext]",
    )  # fmt: skip
    _run_ivy(command, f"{len(pinned)} jars of {set_name}", len(pinned), unfinished / "ivy.log")
    try:
        _verify(pinned, fetched)
    except LocalError:
        shutil.rmtree(unfinished)
        raise
    directory.mkdir(exist_ok=True)
    for jar in pinned:
        (fetched / jar.file_name).rename(directory / jar.file_name)
    shutil.rmtree(unfinished)


def _ivy_module(pinned: list[PinnedJar]) -> str:
    dependencies = "".join(
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master(default)"/>\n'
        for jar in pinned
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="kstorm" module="jars"/>\n'
        f"  <dependencies>\n{dependencies}  </dependencies>\n</ivy-module>\n"
    )


def _run_ivy(command: list[str | Path], what: str, total: int, log_path: Path) -> None:
    progress = _Progress(what, total, sys.stderr)
    with (
        log_path.open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as ivy,
    ):
        assert ivy.stdout is not None
        for line in ivy.stdout:
            log.write(line)
            if "[SUCCESSFUL ]" in line:
                progress.step()
    progress.end()
    if ivy.returncode:
        said = log_path.read_text()
        problems = (
            match[match.lastindex or 0]
            for kind in _IVY_PROBLEMS
            if (match := re.search(kind, said))
        )
        raise LocalError(
            f"could not fetch {what}: {next(problems, 'Ivy failed')} (all that Ivy said is in {log_path}). Check the"
            " network and start again, what has arrived is kept. A proxy goes into JAVA_TOOL_OPTIONS as -Dhttps.proxyHost=…"
            " and -Dhttps.proxyPort=…, a mirror into an Ivy settings file named by KSTORM_IVY_SETTINGS"
        )


class _Progress:
    """Counts on one line of a terminal; elsewhere says only the beginning and the end."""

    def __init__(self, what: str, total: int, out: IO[str]) -> None:
        self._total, self._out, self._live = total, out, out.isatty()
        self._done = 0
        print(
            f"kstorm: fetching {what}, once", end="" if self._live else "\n", file=out, flush=True
        )
        self._line = f"\rkstorm: fetching {what}, once"

    def step(self) -> None:
        self._done += 1
        if self._live:
            print(f"{self._line}: {self._done}/{self._total}", end="", file=self._out, flush=True)

    def end(self) -> None:
        print(
            "" if self._live else f"kstorm: fetched {self._done} jars", file=self._out, flush=True
        )


def _verify(pinned: list[PinnedJar], directory: Path) -> None:
    for jar in pinned:
        path = directory / jar.file_name
        try:
            with path.open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            actual = "no file"
        if actual != jar.sha256:
            raise LocalError(
                f"{path} is not the jar that kstorm was tested with: SHA-256 {actual}, expected {jar.sha256}. Remove"
                f" {directory} and start again; if it comes back, the repository serves another file"
            )


def zookeeper_version() -> str:
    """The version of the ZooKeeper that `pyspark` ships."""
    return _spark_part("zookeeper").stem.removeprefix("zookeeper-")


def _spark_part(name: str) -> Path:
    """The jar of that name, whatever its version, among those that `pyspark` ships."""
    found = sorted((spark_home() / "jars").glob(f"{name}-[0-9]*.jar"))
    if len(found) != 1 or (
        name == "zookeeper" and not found[0].name.startswith(f"{name}-{_ZOOKEEPER_SERIES}")
    ):
        raise LocalError(
            f"pyspark in {spark_home()} has no usable {name}: found {[path.name for path in found]}. kstorm is made for"
            f" pyspark {SPARK_VERSION}; start by ./run, which installs it"
        )
    return found[0]
