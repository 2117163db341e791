"""`python -m tools.locks VERB`: parts of `./run lock`.

`jars` resolves the lists of jars again. `subtract ALL RUN` prints the entries of the lock ALL that the lock RUN does not
have. `dates UVLOCK LOCK…` writes the release dates of the packages in the locks.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kstorm.dev.command_exit import run_command
from tools import jar_lock
from tools.supply import releases


def main() -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.locks")
    parser.add_argument("verb", choices=["jars", "subtract", "dates"])
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    if options.verb == "jars":
        jar_lock.write_lists()
    elif options.verb == "dates":
        uv_lock, *locks = options.files
        write_dates(uv_lock, locks)
    else:
        whole, run = options.files
        sys.stdout.write(subtract_lock(whole.read_text(), run.read_text()))
    return 0


def write_dates(uv_lock: Path, locks: Sequence[Path]) -> None:
    """Write the release dates of all packages in the locks."""
    known = releases.read_releases(releases.RELEASES)
    text = releases.updated(known, uv_lock.read_text(), releases.pinned_packages(locks))
    releases.RELEASES.write_text(text)


def subtract_lock(whole: str, part: str) -> str:
    """Return the entries of a lock that another lock does not have, unchanged."""
    known = set(_entries(part))
    return "".join(entry for entry in _entries(whole) if entry not in known)


def _entries(lock: str) -> list[str]:
    """Return each entry with its hashes, whose lines begin with a space."""
    found: list[str] = []
    for line in lock.splitlines(keepends=True):
        if line.startswith(" ") and found:
            found[-1] += line
        elif not line.startswith("#"):
            found.append(line)
    return found


if __name__ == "__main__":
    sys.exit(run_command("kstorm", main))
