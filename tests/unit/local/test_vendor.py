"""What the page takes from npm: as the lock says, to the byte, with nothing beside it."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from kstorm.local import vendor

PLACE = Path(__file__).parents[3] / vendor.PLACE


def test_the_files_are_those_of_the_lock() -> None:
    """No network is needed to see that. Each package has its licence beside it."""
    for package in vendor.read_lock(PLACE):
        for file in package.files:
            assert hashlib.sha256((PLACE / file.name).read_bytes()).hexdigest() == file.sha256, (
                file.name
            )
        assert any(file.source == "LICENSE" for file in package.files), package
    assert list(vendor.strangers(PLACE)) == []


def test_a_file_that_no_package_has_is_told_of(tmp_path: Path) -> None:
    shutil.copy(PLACE / vendor.LOCK, tmp_path)
    (tmp_path / "other.js").write_text("")
    assert list(vendor.strangers(tmp_path)) == [
        f"{tmp_path / 'other.js'} belongs to no package of vendor.lock"
    ]


def test_another_tarball_is_refused(tmp_path: Path) -> None:
    """Whatever npm says."""
    tarball = tmp_path / "x.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/a.js"), io.BytesIO())
    package = vendor.Vendored("x", "1", "sha512-AAAA", "MIT", [])
    with pytest.raises(LocalError, match="x@1 has the integrity sha512-"):
        vendor.unpack(package, tarball.read_bytes(), tarball)
