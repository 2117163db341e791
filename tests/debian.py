"""Finds Debian's packages of the programs that tests drive.

If this user may, it installs missing ones.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kstorm.dev.paths import cache_directory, exclusive

_INSTALL_SECS: Final = 300


def find_program(package: str, look: Callable[[], str | None]) -> Path | str:
    """Return the program that `look` finds, or the reason and the remedy if it finds none."""
    how_to = f"install Debian's package: apt-get install {package}"
    with exclusive(
        cache_directory() / f"{package}.lock"
    ):  # several processes of a test run may want it
        if found := look():
            return Path(found)
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            return f"there is no {package} here, and this user cannot install it: {how_to}"
        for command in (
            ["update", "-q"],
            ["install", "-q", "-y", "--no-install-recommends", package],
        ):
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
                return f"apt-get {command[0]} failed ({error}): {how_to}"
        installed = look()
        return Path(installed) if installed else f"apt-get has installed no {package}: {how_to}"
