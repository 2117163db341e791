"""Debian's Chromium, which the tests drive."""

import shutil
from functools import partial
from pathlib import Path
from typing import Final

from tests.debian import find_program

OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)
"""That it may run as root, in a container, without a screen and with nobody to talk to."""


def find_chromium() -> Path | str:
    """Where it is; or why there is none, and what to do."""
    return find_program("chromium", partial(shutil.which, "chromium"))
