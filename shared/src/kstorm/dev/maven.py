"""Fetches jars from Maven's central repository with the package `maven-artifact`, if Ivy is absent.

`KSTORM_MAVEN_REPOSITORY` names another repository, such as a company's mirror.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PARALLEL: Final = 8
_TIMEOUT_SECS: Final = 60.0
_CHUNK_BYTES: Final = 1 << 16

MIRROR: Final = "HTTPS_PROXY names a proxy, and KSTORM_MAVEN_REPOSITORY the URL of a mirror."


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

    repository = os.environ.get("KSTORM_MAVEN_REPOSITORY", Resolver.default().base).rstrip("/")
    url = Artifact(jar.group, jar.artifact, jar.version).uri(repository)
    unfinished = folder / f".{jar.file_name}"
    with (
        Requestor().request(url, None, stream=True, timeout=_TIMEOUT_SECS) as answer,
        unfinished.open("wb") as file,
    ):
        for chunk in answer.iter_content(_CHUNK_BYTES):
            file.write(chunk)
    unfinished.rename(folder / jar.file_name)
