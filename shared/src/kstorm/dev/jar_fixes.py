"""Patch the jars that `pyspark` ships: replace those with known vulnerabilities, and remove those
that kstorm does not use.

A folder is either patched completely, or its next use completes the work. The replacements are a
set of jars like the others, fetched and verified by `kstorm.dev.jars`. A jar replaces all jars of
its name, regardless of version. A second run changes nothing, so every command that starts Spark or
ZooKeeper may call this.
"""

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

# Names may contain numbers too, such as log4j-1.2-api-2.26.1, zstd-jni-1.5.6-9 and
# orc-core-2.1.2-shaded-protobuf. One name has no dash: py4j0.10.9.9.
_JAR: Final = re.compile(r"(.+)-(\d+\.\d+[^-]*(?:-\w[^/]*)?)\.jar")
_WITHOUT_DASH: Final = re.compile(r"(.*?[a-z])(\d+\.\d+[\d.]*)\.jar")

# Hive with its database, its shell and its old libraries, because the pipeline has no Hive catalog,
# and some of these have vulnerabilities without a fix. Also the shell of Spark Connect, and native
# code of Netty, because Java's own sockets and TLS suffice.
_UNUSED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"hive-(?!storage-api-).*\.jar",
        r"spark-hive.*\.jar",
        r"(derby|derbyshared|derbytools|datanucleus-.*|jdo-api|javax\.jdo|jta|transaction-api|javolution)-\d.*\.jar",
        r"datanucleus-.*\.jar",
        r"(HikariCP|bonecp|commons-dbcp|commons-pool|commons-lang|libthrift|libfb303|json|jodd-core|jpam)-\d.*\.jar",
        r"(jackson-core-asl|jackson-mapper-asl|antlr-runtime|ST4|stax-api|opencsv|super-csv)-\d.*\.jar",
        r"jline-2\..*\.jar",
        r"bcprov-jdk18on-\d.*\.jar",
        r"netty-tcnative-.*\.jar",
        r"netty-transport-native-(epoll|kqueue)-.*\.jar",
        r"connect-repl",
    )
)


def name_and_version(file_name: str) -> tuple[str, str]:
    """Return a jar's artifact name and version. Without a version, the whole file name and ""."""
    found = _JAR.fullmatch(file_name) or _WITHOUT_DASH.fullmatch(file_name)
    return (found[1], found[2]) if found else (file_name, "")


def artifact(file_name: str) -> str:
    """Return the name of a jar without its version."""
    return name_and_version(file_name)[0]


def unused(file_name: str) -> bool:
    """Return True if kstorm does not need this file of `pyspark`."""
    return any(pattern.fullmatch(file_name) for pattern in _UNUSED)


def fix_jars(
    folder: Path, replacements: Iterable[Path], shipped: Collection[str] = ()
) -> list[str]:
    """Replace and remove jars of `folder`. Return the names of those removed.

    `shipped` are the file names in the installed `pyspark`. An upgrade of it leaves the replacements
    that were made for the version before.
    """
    new = {artifact(path.name): path for path in replacements}
    current = {artifact(name) for name in shipped}
    there = sorted(folder.iterdir())
    for name, path in new.items():
        if any(artifact(old.name) == name for old in there) and not (folder / path.name).exists():
            copy_atomically(path, folder / path.name)
    gone = [
        path
        for path in there
        if unused(path.name)
        or _replaced(path, new)
        or (
            artifact(path.name) in current - new.keys()
            and path.name not in shipped
            and path.suffix == ".jar"
        )
    ]
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return [path.name for path in gone]


def _replaced(path: Path, new: dict[str, Path]) -> bool:
    replacement = new.get(artifact(path.name))
    return replacement is not None and replacement.name != path.name


def copy_atomically(source: Path, target: Path) -> None:
    """Copy a file so that a process that starts at the same time never reads half of it."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, unfinished)
    unfinished.replace(target)


if __name__ == "__main__":  # in an image build: FOLDER REPLACEMENTS
    print("patched:", *fix_jars(Path(sys.argv[1]), Path(sys.argv[2]).glob("*.jar")))
