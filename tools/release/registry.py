"""An OCI registry on this machine, for the time of a trial."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from kstorm.errors import LocalError

_NAMES: Final = ("docker-registry", "registry")
_START_SECS: Final = 20
_MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def find_registry() -> Path:
    """Return the program: from PATH, or from Debian's package, unpacked into the cache."""
    for name in _NAMES:
        if found := shutil.which(name):
            return Path(found)
    cache = Path(os.environ.get("KSTORM_CACHE", Path.home() / ".cache" / "kstorm"), "registry")
    program = cache / "usr" / "bin" / _NAMES[0]
    if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        cache.mkdir(parents=True, exist_ok=True)
        _unpack(cache)
    if not program.exists():
        raise LocalError(
            "there is no OCI registry on this machine: put `registry` of the project Distribution on"
            " PATH (on Debian and Ubuntu: apt-get install docker-registry)"
        )
    return program


def _unpack(folder: Path) -> None:
    # This needs no root, and starts no service.
    with tempfile.TemporaryDirectory() as place:
        quiet = {"cwd": place, "check": False, "capture_output": True}
        subprocess.run(["apt-get", "download", _NAMES[0]], **quiet)  # type: ignore[call-overload]
        for package in Path(place).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=False, capture_output=True)


@contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """Run a registry without TLS that keeps its data in `folder`. Yield its localhost:PORT."""
    program = find_registry()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"localhost:{free.getsockname()[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{address.partition(':')[2]}"},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    with (folder / "log").open("w") as log:
        command = [str(program), "serve", str(folder / "settings.yaml")]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await_start(process, address, folder / "log")
        yield address
    finally:
        process.terminate()
        process.wait(10)


def digest(address: str, repository: str, tag: str) -> str:
    """Return the digest that the registry has for a tag."""
    url = f"http://{address}/v2/{repository}/manifests/{tag}"
    request = urllib.request.Request(url, headers={"Accept": ",".join(_MANIFESTS)})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return str(answer.headers["Docker-Content-Digest"])


def repositories(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}/v2/_catalog", timeout=10) as answer:
        return list(json.load(answer)["repositories"])


def _await_start(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECS
    while True:
        try:
            repositories(address)
        except (urllib.error.URLError, ConnectionError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LocalError(f"the registry did not start: {log.read_text()[-500:]}") from None
            time.sleep(0.05)
        else:
            return
