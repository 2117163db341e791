"""Finds Debian's Chromium, which the tests drive."""

import shutil
from pathlib import Path
from typing import Final

from tests.debian import find_program

OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)
"""Allow it to run as root, in a container, without a screen and without network."""


def find_chromium() -> Path | str:
    """Return its path, or why it is missing and the remedy.

    The headless shell takes a fifth less CPU than the whole browser.
    """
    return find_program("chromium-headless-shell", _headless_or_whole)


def _headless_or_whole() -> str | None:
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")
