"""`./run vendor`: fetch the third-party files of the web UI from npm's registry, without a build.

    ./run vendor              write the files that vendor.lock lists
    ./run vendor --check      fetch the same files and list differences

The lock is next to the files. It lists each package's version, npm integrity and licence. It also
lists each file's name in the package and its SHA-256. A new version is a new line there. npm itself
fetches, with this machine's configuration.
"""

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.errors import LocalError

PLACE: Final = Path("services/ui/src/kstorm_ui/static/vendor")
TESTS: Final = Path("tests/ui/vendor")
"""Files that only the tests of the web UI need."""
LOCK: Final = "vendor.lock"
_ROOT: Final = Path(__file__).parents[1]
_FETCH_SECS: Final = 120


@dataclass(frozen=True, slots=True)
class VendoredFile:
    name: str
    """File name here."""
    source: str
    """Path in the package."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Vendored:
    """An npm package."""

    name: str
    version: str
    integrity: str
    """npm's: `sha512-` and the hash of the tarball in base 64."""
    licence: str
    files: Sequence[VendoredFile]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or compare the files. Return the exit code, 1 if a file differs.

    Raises `LocalError` if a package cannot be fetched.
    """
    parser = argparse.ArgumentParser(
        prog="./run vendor", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and list differences")
    check = parser.parse_args(argv).check
    wrong: list[str] = []
    for place in _ROOT / PLACE, _ROOT / TESTS:
        wrong += strangers(place)
        for package in read_lock(place):
            for name, content in fetch(package).items():
                if not check:
                    (place / name).write_bytes(content)
                elif not (place / name).is_file() or (place / name).read_bytes() != content:
                    wrong.append(f"{place / name} is not what {package} has")
    for line in wrong:
        print(f"kstorm: {line}", file=sys.stderr)
    if not wrong:
        print("what the page takes from others is as npm has it" if check else "written")
    return 1 if wrong else 0


def read_lock(place: Path) -> Sequence[Vendored]:
    """Return the packages that a folder's lock lists."""
    found = tomllib.loads((place / LOCK).read_text())
    return [
        Vendored(
            each["name"],
            each["version"],
            each["integrity"],
            each["licence"],
            [VendoredFile(file["name"], file["from"], file["sha256"]) for file in each["files"]],
        )
        for each in found["package"]
    ]


def strangers(place: Path) -> Iterator[str]:
    """Yield a line for each file that no package of the lock contains."""
    known = {LOCK, *(file.name for package in read_lock(place) for file in package.files)}
    for path in sorted(place.iterdir()):
        if path.name not in known:
            yield f"{path} belongs to no package of {LOCK}"


def fetch(package: Vendored) -> Mapping[str, bytes]:
    """Fetch the files of a package by their names here, verified against the lock. Raises
    `LocalError`."""
    if shutil.which("npm") is None:
        raise LocalError("there is no npm on PATH, which fetches these files: install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "npm",
            "pack",
            str(package),
            "--silent",
            "--ignore-scripts",
            "--pack-destination",
            folder,
        ]
        try:
            subprocess.run(command, capture_output=True, timeout=_FETCH_SECS, check=True)
        except subprocess.SubprocessError as error:
            raise LocalError(f"npm has not fetched {package}: {error}") from None
        tarball = next(Path(folder).iterdir())
        return unpack(package, tarball.read_bytes(), tarball)


def unpack(package: Vendored, content: bytes, tarball: Path) -> Mapping[str, bytes]:
    """Extract the files from a package's tarball. Raises `LocalError` if it does not match the
    lock."""
    found = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
    if found != package.integrity:
        raise LocalError(
            f"{package} has the integrity {found}, and {LOCK} requires {package.integrity}"
        )
    files = {}
    with tarfile.open(tarball) as archive:
        for file in package.files:
            try:
                member = archive.extractfile(f"package/{file.source}")
            except KeyError:
                member = None
            if member is None:
                raise LocalError(f"{package} has no file {file.source}")
            files[file.name] = member.read()
            if hashlib.sha256(files[file.name]).hexdigest() != file.sha256:
                raise LocalError(f"{file.source} of {package} is not the one of {LOCK}")
    return files


if __name__ == "__main__":
    sys.exit(run_command("vendor", main))
