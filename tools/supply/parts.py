"""Lists kstorm's third-party components: locked packages, listed jars, `pyspark`'s jars, and the
web UI's scripts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kstorm.dev.jar_fixes import name_and_version, unused
from kstorm.dev.jars import (
    KAFKA_SET,
    MENDED_SET,
    S3_SET,
    SPARK_SET,
    ZOOKEEPER_SET,
    list_path,
    parse_list,
    read_list,
)
from kstorm.dev.java import spark_home
from kstorm.errors import LocalError
from tools.kafka_releases import NEW_KAFKA_LIST, OLD_KAFKA_LIST
from tools.spark_releases import OLD_SPARK_LIST
from tools.vendor import LOCK, PLACE, read_lock

PartKind = Literal["package", "jar", "script"]

_JAR_LISTS: Final = (
    *map(list_path, (KAFKA_SET, ZOOKEEPER_SET, SPARK_SET, S3_SET, MENDED_SET)),
    NEW_KAFKA_LIST,
    OLD_KAFKA_LIST,
    OLD_SPARK_LIST,
)
_LOCKED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """One version of a package, jar or script."""

    kind: PartKind
    name: str
    """Name in its registry. For a jar, the artifact ID."""
    version: str
    where: str
    """The list that contains it."""
    group: str = ""
    """Group of a jar, if its list has it."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.where})"


def all_parts(root: Path) -> list[Part]:
    """Return the third-party components of the checkout in `root`."""
    names = ("requirements.lock", "requirements-dev.lock", "build-requirements.txt")
    files = [root / name for name in names]
    packages = (part for file in files for part in locked(file))
    return sorted({*packages, *listed(), *shipped(spark_home() / "jars"), *vendored(root / PLACE)})


def locked(file: Path) -> Iterator[Part]:
    """Yield the packages of a requirements file that pins each of them."""
    for name, version in _LOCKED.findall(file.read_text()):
        yield Part("package", re.sub(r"[-_.]+", "-", name).lower(), version, file.name)


def listed() -> Iterator[Part]:
    """Yield the jars of all lists."""
    for jar_list in _JAR_LISTS:
        for jar in parse_list(jar_list):
            yield Part("jar", jar.artifact, jar.version, jar_list.stem, jar.group)


def shipped(folder: Path) -> Iterator[Part]:
    """Yield the jars of `pyspark` after the fixes: without removed and replaced ones."""
    mended = {jar.artifact for jar in read_list(MENDED_SET)}
    for path in folder.glob("*.jar"):
        name, version = name_and_version(path.name)
        if name not in mended and not unused(path.name):
            yield Part("jar", name, version, "pyspark")


def vendored(place: Path) -> Iterator[Part]:
    """Yield the npm packages of the web UI, from the lock in its folder."""
    for package in read_lock(place):
        yield Part("script", package.name, package.version, LOCK)


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as comparable numbers: 4.1.137.Final is (4, 1, 137).

    Raises `LocalError` if the version does not start with a number.
    """
    found = _NUMBERS.match(version)
    if not found:
        raise LocalError(f"the version {version!r} begins with no number, so it cannot be compared")
    return tuple(map(int, found[0].split(".")))
