"""Release dates of the pinned versions, and which of them are older than a year.

`releases.lock` has the dates. `./run lock` writes those of packages from uv's own lock, so that no
network is needed afterwards. A person writes those of Kafka, ZooKeeper, Hadoop, Spark and Delta.
`old.toml` lists old versions that are the newest ones allowed, and the day on which a person
looked.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from kstorm.dev import jars
from tools.kafka_releases import NEW_KAFKA_VERSION, OLD_KAFKA_VERSION
from tools.spark_releases import OLD_SPARK_VERSION
from tools.supply.parts import locked

RELEASES: Final = Path(__file__).with_name("releases.lock")
OLD: Final = Path(__file__).with_name("old.toml")
_YEAR: Final = timedelta(days=365)
_LOOK_AGAIN: Final = timedelta(days=183)
_HEAD: Final = (
    "# Release dates of pinned versions. Written by ./run lock, except those of servers and jars.\n"
)

Version = tuple[str, str]
"""Name and version."""


@dataclass(frozen=True, slots=True)
class OldOnes:
    """Contents of `old.toml`."""

    looked: date
    """Day on which a person looked for newer versions."""
    accepted: frozenset[Version]


def read_releases(file: Path = RELEASES) -> dict[Version, date]:
    lines = re.findall(r"(?m)^([^#\s=]+)==(\S+) (\S+)$", file.read_text())
    return {(name, version): date.fromisoformat(day) for name, version, day in lines}


def read_old(file: Path = OLD) -> OldOnes:
    found = tomllib.loads(file.read_text())
    accepted = [*found["newest"], *found["held"]]
    return OldOnes(found["looked"], frozenset(_version(each) for each in accepted))


def complaints(
    pinned: Iterable[Version], releases: Mapping[Version, date], old: OldOnes, today: date
) -> list[str]:
    """Return a line for each pin that is older than a year and not accepted.

    There is also one for each pin without a date, and for each accepted version that is not pinned.
    """
    pins = sorted(set(pinned))
    undated = [
        f"the release date of {_text(pin)} is not in {RELEASES.name}: run ./run lock, or write it "
        "there if it is a server's or a jar's"
        for pin in pins
        if pin not in releases
    ]
    late = [
        f"{_text(pin)} is of {releases[pin]}, which is over a year ago: raise it (./run lock), or "
        f"list it in {OLD.name} if there is no newer one"
        for pin in pins
        if pin in releases and today - releases[pin] > _YEAR and pin not in old.accepted
    ]
    idle = [
        f"{_text(each)} is not pinned any more: remove it from {OLD.name}"
        for each in sorted(old.accepted - set(pins))
    ]
    if old.accepted and today - old.looked > _LOOK_AGAIN:
        idle.append(
            f"the versions in {OLD.name} were looked at on {old.looked}: look for newer ones "
            "(./run lock), and write the new day there"
        )
    return [*undated, *late, *idle]


def pinned_packages(files: Iterable[Path]) -> list[Version]:
    """Return the packages of requirements files."""
    return [(part.name, part.version) for file in files for part in locked(file)]


def pinned(root: Path) -> list[Version]:
    """Return the packages of the checkout in `root`, and the servers and libraries in Java that
    kstorm chooses."""
    names = ("requirements.lock", "requirements-dev.lock", "build-requirements.txt")
    chosen = {
        "Kafka": (jars.KAFKA_VERSION, NEW_KAFKA_VERSION, OLD_KAFKA_VERSION),
        "ZooKeeper": (jars.ZOOKEEPER_VERSION,),
        "Spark": (jars.SPARK_VERSION, OLD_SPARK_VERSION),
        "Delta": (jars.DELTA_VERSION,),
        "Hadoop": (jars.HADOOP_VERSION,),
    }
    return [
        *pinned_packages(root / name for name in names),
        *((name, version) for name, versions in chosen.items() for version in versions),
    ]


def updated(known: Mapping[Version, date], uv_lock: str, pinned: Iterable[Version]) -> str:
    """Return the new `releases.lock`.

    A pinned package has the date of its first file in uv's lock. Other entries stay if they are
    pinned, or if they are not packages.
    """
    dates = dict(known)
    for package in tomllib.loads(uv_lock)["package"]:
        days = [_day(file) for file in (*package.get("wheels", ()), package.get("sdist", {}))]
        if found := [day for day in days if day is not None]:
            dates[package["name"], package["version"]] = min(found)
    packages = set(pinned)
    kept = {pin: day for pin, day in dates.items() if pin in packages or pin[0][0].isupper()}
    return _HEAD + "".join(f"{_text(pin)} {day}\n" for pin, day in sorted(kept.items()))


def _day(file: Mapping[str, Any]) -> date | None:
    stamp = file.get("upload-time")
    return None if stamp is None else date.fromisoformat(str(stamp)[:10])


def _version(text: str) -> Version:
    name, _, version = text.partition("==")
    return name, version


def _text(version: Version) -> str:
    return "==".join(version)
