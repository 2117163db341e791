"""Debian's Chromium, which the tests drive: found, or installed first if this user may."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kstorm.local.paths import cache_directory, exclusive

OPTIONS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
"""That it may run as root, in a container, without a screen and with nobody to talk to."""
_HOW_TO: Final = "install Debian's package: apt-get install chromium"
_INSTALL_SECS: Final = 300


def find_chromium() -> Path | str:
    """Where it is; or why there is none, and what to do."""
    with exclusive(cache_directory() / "chromium.lock"):  # processes of one test run may want it at the same time
        return _find()


def _find() -> Path | str:
    if found := shutil.which("chromium"):
        return Path(found)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return f"there is no chromium on PATH, and this user cannot install it: {_HOW_TO}"
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", "chromium"]):
        try:
            subprocess.run(
                ["apt-get", *command],
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_INSTALL_SECS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            return f"apt-get {command[0]} failed ({error}): {_HOW_TO}"
    installed = shutil.which("chromium")
    return Path(installed) if installed else f"apt-get has installed no chromium: {_HOW_TO}"
