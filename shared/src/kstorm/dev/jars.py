"""The jars of Kafka's server and of Spark's connectors: fetched once, pinned, and verified at every
use.

Each set of jars has a list next to this file, `<set>.sha256`, with a line
`<SHA-256> <group>:<artifact>:<version>` for every jar. So no dependencies have to be resolved.
Every path that this module returns is a file with the content in the list. `pyspark` ships Apache
Ivy, which fetches the jars from its default repository; `KSTORM_IVY_SETTINGS` names an Ivy settings
file for a mirror. Without `pyspark`, `kstorm.dev.maven` fetches them. Some jars of `pyspark` have known
vulnerabilities; one set holds the fixed versions that replace them (`kstorm.dev.jar_fixes`).
"""

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from kstorm.dev.failure_causes import explain_fetch
from kstorm.dev.jar_fixes import fix_jars
from kstorm.dev.java import find_java, spark_home
from kstorm.dev.java_trust import trust_options
from kstorm.dev.logged_command import LoggedCommand
from kstorm.dev.maven import PinnedJar, download, where
from kstorm.dev.paths import cache_directory, exclusive
from kstorm.dev.stage_progress import StageProgress
from kstorm.dev.stage_times import note_stage_time
from kstorm.errors import LocalError

KAFKA_VERSION: Final = "4.1.2"
ZOOKEEPER_VERSION: Final = "3.9.5"
SPARK_VERSION: Final = "4.2.0"
DELTA_VERSION: Final = "4.4.0"
# The Hadoop that `pyspark` ships.
HADOOP_VERSION: Final = "3.5.0"

KAFKA_SET: Final = f"kafka-{KAFKA_VERSION}"
ZOOKEEPER_SET: Final = f"zookeeper-{ZOOKEEPER_VERSION}"
SPARK_SET: Final = f"spark-{SPARK_VERSION}"
S3_SET: Final = f"s3-{HADOOP_VERSION}"
MENDED_SET: Final = f"mended-{SPARK_VERSION}"

# Ivy's default repository. Ivy requests only jars from it, because every version is pinned and
# module descriptions are not needed.
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


_JARS_IN_PART: Final = 16
"""One Ivy process fetches about this number of jars, one after the other. Several processes run in
parallel, because each mostly waits for the network."""
_IVY_JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
_LOOK_SECS: Final = 0.2
_MIRROR: Final = (
    "A proxy goes into JAVA_TOOL_OPTIONS as -Dhttps.proxyHost=… and -Dhttps.proxyPort=…, a mirror into an Ivy settings file"
    " named by KSTORM_IVY_SETTINGS."
)


def kafka_jars() -> list[Path]:
    """The jars of Kafka's server, complete with its logging; fetched if they are not in the cache yet."""
    return _jars(KAFKA_SET)


def spark_jars() -> list[Path]:
    """The jars that Spark needs for Kafka and Delta in addition to its own, for `spark.jars`; fetched if not in the cache."""
    return _jars(SPARK_SET)


def s3_jars() -> list[Path]:
    """The jars that Spark needs for tables on S3 in addition to those of `spark_jars`. `prepare` does not fetch them."""
    return _jars(S3_SET)


def mended_jars() -> list[Path]:
    """The jars that replace others in the installed `pyspark`; fetched if not in the cache."""
    return _jars(MENDED_SET)


def zookeeper_classpath() -> list[Path]:
    """The jars of ZooKeeper's server, complete with its logging; fetched if they are not in the cache yet."""
    return _jars(ZOOKEEPER_SET)


def prepare_servers() -> None:
    """Fetch the jars of Kafka and ZooKeeper."""
    _fetch_missing(*map(_named, (KAFKA_SET, ZOOKEEPER_SET)))


def prepare() -> None:
    """Fetch the jars that the demo and the integration tests need, all sets at once, and patch the installed `pyspark`.

    Raises `LocalError` if the installed `pyspark` is of another release than the jars."""
    _check_spark()
    _fetch_missing(*map(_named, (KAFKA_SET, ZOOKEEPER_SET, SPARK_SET, MENDED_SET)))
    fix_spark()


def _check_spark() -> None:
    with suppress(PackageNotFoundError):
        if (found := version("pyspark")) != SPARK_VERSION:
            raise LocalError(
                f"pyspark {found} is installed, but this command's jars are for {SPARK_VERSION}: pip install"
                f" pyspark=={SPARK_VERSION}. Only kstorm-pipeline works with other releases"
            )


def fix_spark() -> None:
    """Replace the jars of the installed `pyspark` that have known vulnerabilities, once."""
    replacements = mended_jars()
    try:
        with exclusive(spark_home() / ".mending"):
            fix_jars(spark_home() / "jars", replacements, _shipped_jars())
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise LocalError(
            f"the jars in {spark_home()} cannot be replaced by patched ones ({error.strerror}): install"
            " kstorm[demo] in an environment of your own"
        ) from None


def _shipped_jars() -> set[str]:
    """Return the file names of the jars in the installed package `pyspark`, if there is one."""
    try:
        found = files("pyspark") or ()
    except PackageNotFoundError:
        return set()
    return {path.name for path in found if path.parent.name == "jars"}


def lay_out(folder: Path) -> None:
    """Copy the jars of the container images to `folder`, which must not exist: Kafka's,
    ZooKeeper's, Spark's, and the patched ones."""
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
    """The file next to this module that lists the jars of a set."""
    return Path(__file__).with_name(f"{set_name}.sha256")


def read_list(set_name: str) -> list[PinnedJar]:
    """Return the jars of a set."""
    return parse_list(list_path(set_name))


def parse_list(path: Path) -> list[PinnedJar]:
    """Return the jars of a list. A line that begins with `#` is a comment."""
    jars = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            digest, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(PinnedJar(group, artifact, version, digest))
    return jars


def ivy_command(*arguments: str | Path) -> list[str | Path]:
    """Return the command that runs the Ivy in `pyspark` with these arguments."""
    java = find_java()
    trust = trust_options() if java.bundled else []
    return [java.executable, *_IVY_JAVA, *trust, "-cp", _ivy(), "org.apache.ivy.Main", *arguments]


def jars_of(jar_list: Path) -> list[Path]:
    """The jars of a list, in a cache folder with its name; fetched if they are not there yet."""
    return _fetched(_JarSet(jar_list.stem, parse_list(jar_list)))


def _jars(set_name: str) -> list[Path]:
    return _fetched(_named(set_name))


def _fetched(jar_set: "_JarSet") -> list[Path]:
    _fetch_missing(jar_set)
    _verify(jar_set.pinned, jar_set.directory)
    return [jar_set.directory / jar.file_name for jar in jar_set.pinned]


def _named(set_name: str) -> "_JarSet":
    return _JarSet(set_name, read_list(set_name))


@dataclass(frozen=True, slots=True)
class _JarSet:
    name: str
    pinned: Sequence[PinnedJar]

    @property
    def directory(self) -> Path:
        return cache_directory() / "jars" / self.name

    def missing(self) -> list[PinnedJar]:
        """The jars that are not in the cache, for example because a new version of kstorm added them."""
        return [jar for jar in self.pinned if not (self.directory / jar.file_name).exists()]


def _fetch_missing(*jar_sets: _JarSet) -> None:
    with ExitStack() as stack:
        for jar_set in jar_sets:
            if jar_set.missing():
                stack.enter_context(exclusive(jar_set.directory.with_name(f".{jar_set.name}.lock")))
        # Another process may have fetched them while this one waited for the locks.
        if parts := [part for jar_set in jar_sets for part in _parts(jar_set)]:
            _fetch(parts)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some jars of a set, which one Ivy process fetches one after the other."""

    jar_set: _JarSet
    number: int
    jars: Sequence[PinnedJar]

    @property
    def unfinished(self) -> Path:
        """The folder for the jars that have arrived, where the next attempt finds them."""
        name = f".{self.jar_set.name}.unfinished-{self.number}"
        return self.jar_set.directory.with_name(name)

    @property
    def log(self) -> Path:
        """The file with everything that this Ivy prints."""
        return self.unfinished / "ivy.log"

    def command(self) -> list[str | Path]:
        """Write the files that Ivy reads; return the command."""
        self.unfinished.mkdir(parents=True, exist_ok=True)
        settings = self.unfinished / "settings.xml"
        settings.write_text(_IVY_SETTINGS)
        module = self.unfinished / "ivy.xml"
        module.write_text(_ivy_module(self.jars))
        return ivy_command(
            "-settings", os.environ.get("KSTORM_IVY_SETTINGS", settings), "-ivy", module, "-cache", self.unfinished / "ivy",
            "-retrieve", self.unfinished / "jars" / "[artifact]-[revision].[ext]",
        )  # fmt: skip

    def take(self) -> None:
        """Verify the jars and move them into the cache."""
        fetched, directory = self.unfinished / "jars", self.jar_set.directory
        try:
            _verify(self.jars, fetched)
        except LocalError:
            shutil.rmtree(self.unfinished)
            raise
        directory.mkdir(exist_ok=True)
        for jar in self.jars:
            (fetched / jar.file_name).rename(directory / jar.file_name)
        shutil.rmtree(self.unfinished)


def _parts(jar_set: _JarSet) -> list[_Part]:
    """The missing jars of a set, in parts of about the same size. A jar is always in the same part, so a second attempt finds the
    jars of the first one."""
    missing = set(jar_set.missing())
    numbers: dict[int, list[PinnedJar]] = {}
    for place, jar in enumerate(jar_set.pinned):
        if jar in missing:
            numbers.setdefault(place // _JARS_IN_PART, []).append(jar)
    return [_Part(jar_set, number, jars) for number, jars in numbers.items()]


def _fetch(parts: Sequence[_Part]) -> None:
    total = sum(len(part.jars) for part in parts)
    with StageProgress("jars") as progress:
        fetch = _fetch_by_ivy if find_spec("pyspark") else _fetch_by_maven
        for arrived in fetch(parts):
            progress.show(arrived / total, f"{arrived} of {total}")
        progress.end(f"{total} of {total}")
    if home := os.environ.get("KSTORM_HOME"):
        note_stage_time(Path(home), "jars", progress.seconds)


def _fetch_by_ivy(parts: Sequence[_Part]) -> Iterator[int]:
    """Fetch the jars. Yield the number of fetched jars, again and again."""
    with ExitStack() as stack:
        commands = [(part, part.command()) for part in parts]
        running = [
            (part, stack.enter_context(LoggedCommand(command, part.log)))
            for part, command in commands
        ]
        arrived = 0
        while running:
            time.sleep(_LOOK_SECS)
            for part, ivy in list(running):
                code = ivy.returncode
                arrived += sum("[SUCCESSFUL ]" in line for line in ivy.new_lines())
                if code is not None:
                    running.remove((part, ivy))
                    if code:
                        raise _unfetched(part, ivy.written())
                    part.take()
            yield arrived


def _fetch_by_maven(parts: Sequence[_Part]) -> Iterator[int]:
    before = 0
    for part in parts:
        try:
            for arrived in download(part.jars, part.unfinished / "jars"):
                yield before + arrived
        except OSError as error:
            remedy = explain_fetch(str(error), part.unfinished, where()) or f"{error}. {where()}"
            raise LocalError(
                f"the jars of {part.jar_set.name} could not be fetched: {remedy}"
            ) from None
        part.take()
        before += len(part.jars)


def _unfetched(part: _Part, written: str) -> LocalError:
    problems = (
        match[match.lastindex or 0] for kind in _IVY_PROBLEMS if (match := re.search(kind, written))
    )
    problem = next(problems, "Ivy failed")
    remedy = explain_fetch(written, part.unfinished, _MIRROR) or (
        f"{problem}. Run the same command again, which continues where it stopped. {_MIRROR}"
    )
    return LocalError(
        f"the jars of {part.jar_set.name} could not be fetched: {remedy}. The log is {part.log}"
    )


def _ivy_module(pinned: Sequence[PinnedJar]) -> str:
    dependencies = "".join(
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master(default)"/>\n'
        for jar in pinned
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="kstorm" module="jars"/>\n'
        f"  <dependencies>\n{dependencies}  </dependencies>\n</ivy-module>\n"
    )


def _verify(pinned: Sequence[PinnedJar], directory: Path) -> None:
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
                f" {directory} and run the command again; if this error returns, the repository serves another file"
            )


def _ivy() -> Path:
    """The jar of the Ivy that `pyspark` ships."""
    found = sorted((spark_home() / "jars").glob("ivy-[0-9]*.jar"))
    if len(found) != 1:
        raise LocalError(
            f"pyspark in {spark_home()} has no usable ivy: found {[path.name for path in found]}. kstorm needs"
            f" pyspark {SPARK_VERSION}: pip install 'kstorm[demo]'"
        )
    return found[0]
