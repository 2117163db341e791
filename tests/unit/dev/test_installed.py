"""A version of kstorm that is installed while `kstorm dev` runs."""

from pathlib import Path

import pytest

from kstorm.dev.installed import InstalledVersion
from kstorm.errors import LocalError


def install(folder: Path, version: str) -> Path:
    info = folder / f"kstorm-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kstorm\nVersion: {version}\n")
    return info


def test_another_version_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes would run the new code under the supervision of the old."""
    monkeypatch.syspath_prepend(str(tmp_path))
    old = install(tmp_path, "1.0.0")
    installed = InstalledVersion()
    installed.check()
    (old / "METADATA").unlink()
    old.rmdir()
    install(tmp_path, "1.1.0")
    with pytest.raises(LocalError, match=r"^kstorm 1\.1\.0 was installed while kstorm 1\.0\.0 ran"):
        installed.check()
