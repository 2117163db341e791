"""The web UI's scripts from npm match their lock, byte for byte, without further files."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from tools import vendor

PLACE = Path(__file__).parents[3] / vendor.PLACE


@pytest.mark.parametrize("where", [vendor.PLACE, vendor.TESTS], ids=str)
def test_files_match_the_lock(where: Path) -> None:
    """The check needs no network. Each package has its licence."""
    place = Path(__file__).parents[3] / where
    for package in vendor.read_lock(place):
        for file in package.files:
            assert hashlib.sha256((place / file.name).read_bytes()).hexdigest() == file.sha256, (
                file.name
            )
        assert any(file.source == "LICENSE" for file in package.files), package
    assert list(vendor.strangers(place)) == []


def test_file_of_no_package_is_reported(tmp_path: Path) -> None:
    shutil.copy(PLACE / vendor.LOCK, tmp_path)
    (tmp_path / "other.js").write_text("")
    assert list(vendor.strangers(tmp_path)) == [
        f"{tmp_path / 'other.js'} belongs to no package of vendor.lock"
    ]


def test_tarball_with_another_hash_is_rejected(tmp_path: Path) -> None:
    tarball = tmp_path / "x.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/a.js"), io.BytesIO())
    package = vendor.Vendored("x", "1", "sha512-AAAA", "MIT", [])
    with pytest.raises(LocalError, match="x@1 has the integrity sha512-"):
        vendor.unpack(package, tarball.read_bytes(), tarball)
