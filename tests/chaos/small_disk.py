"""A disk that fills up: a small file system, mounted at a folder."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BLOCK: Final = bytes(64 * 1024)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[str]:
    """Mount a file system of `size` bytes at a folder. Yields the reason if that is impossible, or
    empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        yield "only root may mount a small disk"
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "kstorm-test", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        yield f"a small disk cannot be mounted: {mounted.stderr.strip()}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def fill_disk(path: Path) -> None:
    """Write to a file until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
