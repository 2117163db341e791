"""The bill of materials of an image, as CycloneDX."""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kstorm.dev.jars import KAFKA_SET, read_list
from tools import vendor
from tools.images.bom import bill

ROOT = Path(__file__).parents[3]
STATUS = """\
Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1+b3

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
COPYRIGHT = "Files: *\nLicense: Expat\n\nFiles: debian/*\nLicense: Expat\n"
METADATA = "Metadata-Version: 2.4\nName: {}\nVersion: {}\n{}"


def write(path: Path, text: str) -> None:
    """Write a file, and create its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image with one part of each kind."""
    write(tmp_path / "var/lib/dpkg/status", STATUS)
    write(tmp_path / "usr/share/doc/tini/copyright", COPYRIGHT)
    packages = tmp_path / "opt/kstorm/lib/python3.11/site-packages"
    write(packages / "uvloop-0.23.0.dist-info/METADATA", METADATA.format("uvloop", "0.23.0", ""))
    write(packages / "kstorm-0.1.0.dist-info/METADATA", METADATA.format("kstorm", "0.1.0", ""))
    write(
        packages / "own-1.dist-info/METADATA",
        METADATA.format("own", "1", "License-Expression: MIT\n"),
    )
    write(packages / "pyspark/jars/zstd-jni-1.5.6-9.jar", "zstd")
    vendored = packages / "kstorm_ui/static/vendor"
    vendored.mkdir(parents=True)
    shutil.copy(ROOT / vendor.PLACE / vendor.LOCK, vendored)
    write(tmp_path / "opt/java/release", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.8"\n')
    (kafka,) = [jar for jar in read_list(KAFKA_SET) if jar.artifact == "kafka_2.13"]
    write(tmp_path / "opt/jars" / kafka.file_name, "kafka")
    return tmp_path


def named(found: dict[str, Any], name: str) -> dict[str, Any]:
    (component,) = [each for each in found["components"] if each["name"] == name]
    return dict(component)


def test_all_installed_parts_are_listed(root: Path) -> None:
    """Removed packages are not."""
    found = bill("kstorm-x", root)
    assert (found["bomFormat"], found["metadata"]["component"]["name"]) == ("CycloneDX", "kstorm-x")
    names = sorted(each["name"] for each in found["components"])
    assert names == [
        "@dagrejs/dagre",
        "htmx.org",
        "kafka_2.13",
        "kstorm",
        "openjdk",
        "own",
        "tini",
        "uplot",
        "uvloop",
        "zstd-jni",
    ]
    dagre = named(found, "@dagrejs/dagre")
    assert dagre["purl"].startswith("pkg:npm/%40dagrejs/dagre@")
    assert dagre["licenses"] == [{"expression": "MIT"}]
    references = [each["bom-ref"] for each in found["components"]]
    assert len(set(references)) == len(references)


def test_each_part_has_its_version_and_licence(root: Path) -> None:
    """The licence comes from our list, from a foreign package's metadata, or from Debian's
    copyright files."""
    found = bill("kstorm-x", root)
    assert named(found, "tini")["purl"] == "pkg:deb/debian/tini@0.19.0-1%2Bb3?arch=amd64"
    assert named(found, "tini")["licenses"] == [{"license": {"name": "Expat"}}]
    assert named(found, "uvloop")["purl"] == "pkg:pypi/uvloop@0.23.0"
    licences = {
        name: named(found, name)["licenses"]
        for name in ("uvloop", "kstorm", "own", "openjdk", "zstd-jni")
    }
    assert licences == {
        "uvloop": [{"expression": "MIT OR Apache-2.0"}],
        "kstorm": [{"expression": "Apache-2.0"}],
        "own": [{"expression": "MIT"}],
        "openjdk": [{"expression": "GPL-2.0-only WITH Classpath-exception-2.0"}],
        "zstd-jni": [{"expression": "BSD-2-Clause"}],
    }
    kafka = named(found, "kafka_2.13")
    assert kafka["purl"].startswith("pkg:maven/org.apache.kafka/kafka_2.13@")
    assert kafka["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"kafka").hexdigest()}]
    assert (
        named(found, "zstd-jni")["purl"]
        == "pkg:generic/zstd-jni@1.5.6-9?file_name=zstd-jni-1.5.6-9.jar"
    )


def test_image_without_known_parts_has_an_empty_list(tmp_path: Path) -> None:
    """An example is a base image other than Debian's."""
    assert bill("kstorm-x", tmp_path)["components"] == []


def test_lister_needs_only_the_files_that_builds_get(tmp_path: Path) -> None:
    """It runs in the base image, which has no packages."""
    for place in re.findall(r"(?m)^!(tools/.+)$", (ROOT / ".dockerignore").read_text()):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).symlink_to(ROOT / place)
    (tmp_path / "kstorm").symlink_to(ROOT / "shared/src/kstorm")
    subprocess.run(
        [sys.executable, "-S", "-c", "import tools.images.bom"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
    )
