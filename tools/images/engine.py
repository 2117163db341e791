"""The program that builds and stores images on this machine: docker if its daemon responds,
otherwise buildah."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kstorm.errors import LocalError


class Engine(ABC):
    """A program that builds images. Every method raises `LocalError` if the program fails."""

    _build: Sequence[str]

    def build(
        self,
        dockerfile: Path,
        context: Path,
        image: str,
        *,
        arguments: Mapping[str, str],
        secrets: Mapping[str, Path] | None = None,
        contexts: Mapping[str, Path] | None = None,
        labels: Mapping[str, str] | None = None,
        target: str = "",
    ) -> None:
        """Build `image`. The program's output goes to standard error.

        `secrets` are files by their id in the Dockerfile. `contexts` are folders that stand for its
        stages of that name. `labels` are added to the Dockerfile's.
        """
        command = [*self._build, "--file", str(dockerfile), "--tag", image]
        command += [
            part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")
        ]
        command += [
            part
            for name, path in (secrets or {}).items()
            for part in ("--secret", f"id={name},src={path}")
        ]
        command += [
            part
            for name, path in (contexts or {}).items()
            for part in ("--build-context", f"{name}={path}")
        ]
        command += self._labels(labels or {})
        command += ["--target", target] if target else []
        if subprocess.run([*command, str(context)], stdout=sys.stderr, check=False).returncode:
            raise LocalError(f"{self._build[0]} could not build {image}; see the output above")
        self._label(image, self._labels(labels or {}))

    def _labels(self, labels: Mapping[str, str]) -> list[str]:
        return [part for name, value in labels.items() for part in ("--label", f"{name}={value}")]

    def _label(self, image: str, labels: Sequence[str]) -> None:  # noqa: B027 - docker has done it
        """Set the labels of a built image, if the build itself may not have done so."""

    @abstractmethod
    def has(self, image: str) -> bool:
        """Return True if the image is on this machine."""

    @abstractmethod
    def pull(self, image: str) -> None: ...

    @abstractmethod
    def push(self, image: str, name: str, *, plain_http: bool = False) -> str:
        """Push `image` to a registry as `name`, and return the digest there."""

    def login(self, host: str, user: str, password: str) -> None:
        _run(self._build[0], "login", "--username", user, "--password-stdin", host, stdin=password)

    @abstractmethod
    def size(self, image: str) -> int:
        """Return the total unpacked size of all layers, in bytes."""

    @abstractmethod
    def read(self, image: str, path: str) -> str:
        """Return the text of a file in the image."""


class Docker(Engine):
    """docker, with BuildKit."""

    _build = ("docker", "build")

    def has(self, image: str) -> bool:
        return _succeeds("docker", "image", "inspect", image)

    def pull(self, image: str) -> None:
        _run("docker", "pull", "--quiet", image)

    def push(self, image: str, name: str, *, plain_http: bool = False) -> str:
        """Push it. docker itself decides about TLS: it needs none for localhost."""
        _run("docker", "tag", image, name)
        return _digest(_run("docker", "push", name), name)

    def size(self, image: str) -> int:
        return int(_run("docker", "image", "inspect", "--format", "{{.Size}}", image))

    def read(self, image: str, path: str) -> str:
        return _run(
            "docker", "run", "--rm", "--network", "none", "--entrypoint", "cat", image, path
        )


class Buildah(Engine):
    """buildah, which needs no daemon."""

    _build = ("buildah", "build", "--layers")

    def __init__(self) -> None:
        # Works inside a container too, where a container runtime does not.
        os.environ.setdefault("BUILDAH_ISOLATION", "chroot")

    def _label(self, image: str, labels: Sequence[str]) -> None:
        """Set the labels again. A fully cached build gives the image older labels."""
        if labels:
            container = _run("buildah", "from", "--pull-never", image).strip()
            _run("buildah", "config", *labels, container)
            _run("buildah", "commit", "--quiet", "--rm", container, image)

    def has(self, image: str) -> bool:
        return _succeeds("buildah", "inspect", "--type", "image", image)

    def pull(self, image: str) -> None:
        _run("buildah", "pull", "--quiet", image)

    def push(self, image: str, name: str, *, plain_http: bool = False) -> str:
        with tempfile.NamedTemporaryFile("r") as file:
            verify = f"--tls-verify={str(not plain_http).lower()}"
            # Docker's format is what a registry gets from docker too.
            how = ("--quiet", "--format", "docker", verify, "--digestfile", file.name)
            _run("buildah", "push", *how, image, f"docker://{name}")
            return _digest(file.read(), name)

    def size(self, image: str) -> int:
        manifest: dict[str, Any] = json.loads(
            _run("buildah", "inspect", "--type", "image", "--format", "{{.Manifest}}", image)
        )
        return sum(layer["size"] for layer in manifest["layers"])

    def read(self, image: str, path: str) -> str:
        container = _run("buildah", "from", "--pull-never", image).strip()
        try:
            return _run("buildah", "run", container, "--", "cat", path)
        finally:
            _run("buildah", "rm", container)


_KINDS: Final = (
    ("docker", Docker, ("docker", "info")),
    ("buildah", Buildah, ("buildah", "--version")),
)


def find_engine() -> Engine:
    """Return the first engine that works here. Raises `LocalError` if there is none."""
    for program, kind, trial in _KINDS:
        if shutil.which(program) and _succeeds(*trial):
            return kind()
    raise LocalError(
        "no docker answers and there is no buildah: start docker, or install buildah (apt-get install buildah on Debian)"
    )


def load(image: str, loader: str) -> None:
    """Load an image into a cluster by running `loader` with its name. Raises `LocalError` if that
    fails."""
    try:
        returncode = subprocess.run(
            [*shlex.split(loader), image], stdout=sys.stderr, check=False
        ).returncode
    except OSError as error:
        raise LocalError(
            f"KSTORM_IMAGE_LOADER is {loader!r}, which cannot be run: {error}"
        ) from None
    if returncode:
        raise LocalError(
            f"KSTORM_IMAGE_LOADER is {loader!r}, which failed to load {image} with exit code {returncode}"
        )


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _digest(text: str, name: str) -> str:
    found = re.search(r"sha256:[0-9a-f]{64}", text)
    if found is None:
        raise LocalError(
            f"{name} was pushed, but no digest was reported: {text.strip() or 'nothing'}"
        )
    return found[0]


def _run(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalError(
            f"{shlex.join(command)} failed: {done.stderr.strip() or f'exit code {done.returncode}'}"
        )
    return done.stdout
