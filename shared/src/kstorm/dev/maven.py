"""Fetches jars from Maven's central repository with the package `maven-artifact`, if Ivy is absent.

`KSTORM_MAVEN_REPOSITORY` names another repository, such as a company's mirror.
"""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from kstorm.errors import ConfigError

_PARALLEL: Final = 8
_TIMEOUT_SECS: Final = 60.0
_CHUNK_BYTES: Final = 1 << 16

_VARIABLE: Final = "KSTORM_MAVEN_REPOSITORY"


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


def where() -> str:
    """Return the end of an error message: the place of the jars, and how to choose another."""
    chosen = os.environ.get(_VARIABLE)
    scheme = urlsplit(chosen or "https:").scheme
    said = f"{_VARIABLE} is {_without_login(chosen)}" if chosen else ""
    if proxy := getproxies().get(scheme):
        via = f"the proxy of {scheme.upper()}_PROXY is {_without_login(proxy)}"
        said = f"{said}, and {via}" if said else via
    if said:
        return f"{said[0].upper()}{said[1:]}." if not chosen else f"{said}."
    return f"HTTPS_PROXY names a proxy, and {_VARIABLE} the URL of a mirror."


def _without_login(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", url)


def _repository(default: str) -> str:
    chosen = os.environ.get(_VARIABLE)
    if chosen and not re.match(r"https?://[^/]", chosen):
        raise ConfigError(
            f"{_VARIABLE} is {chosen!r}, which is not a URL: give one such as https://mirror.example.com/maven2"
        )
    return (chosen or default).rstrip("/")


def download(jars: Sequence[PinnedJar], folder: Path) -> Iterator[int]:
    """Write the jars that the folder does not have into it. Yield the number of arrived jars after each.

    Raises `OSError` if the repository does not respond or does not have a jar.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not (folder / jar.file_name).exists()]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        running = [pool.submit(_download, jar, folder) for jar in missing]
        try:
            for number, done in enumerate(as_completed(running), len(jars) - len(missing) + 1):
                done.result()
                yield number
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _download(jar: PinnedJar, folder: Path) -> None:
    from maven_artifact.artifact import Artifact
    from maven_artifact.requestor import Requestor
    from maven_artifact.resolver import Resolver

    repository = _repository(Resolver.default().base)
    url = Artifact(jar.group, jar.artifact, jar.version).uri(repository)
    unfinished = folder / f".{jar.file_name}"
    with (
        Requestor().request(url, None, stream=True, timeout=_TIMEOUT_SECS) as answer,
        unfinished.open("wb") as file,
    ):
        for chunk in answer.iter_content(_CHUNK_BYTES):
            file.write(chunk)
    unfinished.rename(folder / jar.file_name)
