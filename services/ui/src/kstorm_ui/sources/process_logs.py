"""The last log lines of a process, from its current and its previous run, so that the last lines of
a killed process are included.

At most the lines of one page are kept in memory, regardless of the size of the log.
"""

import os
import re
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from kstorm.errors import AbsentError

MOST_LINES: Final = 500
MOST_BYTES: Final = 256_000
"""Maximum number of lines per run."""
_LONGEST_LINE: Final = 8_000
_MOST_SEARCHED: Final = 64_000_000
_BEGIN: Final = re.compile(rb"^--- \S+, start ([0-9]+): ", re.MULTILINE)
"""The line that `kstorm.dev.processes` writes before each start."""


class LogLife(msgspec.Struct, frozen=True):
    """Log of one run, from one start to the next."""

    name: str
    """Name of the run."""
    lines: list[str]
    """The last lines."""
    is_cut: bool
    """True if earlier lines are left out."""
    problem: str = ""
    """Reason why there are no lines, or ""."""


def last_of(name: str, lines: Iterable[str], *, is_cut: bool = False) -> LogLife:
    """Keep the last of these lines. `is_cut`: others came before them."""
    kept: deque[str] = deque()
    size = 0
    for line in lines:
        short = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
        kept.append(short)
        size += len(short.encode(errors="replace")) + 1
        while len(kept) > MOST_LINES or size > MOST_BYTES:
            size -= len(kept.popleft().encode(errors="replace")) + 1
            is_cut = True
    return LogLife(name, list(kept), is_cut)


def lives_in(file: Path) -> list[LogLife]:
    """Return the runs in a local process's log, newest first. Raises `AbsentError` if there is no
    log."""
    try:
        text, is_whole = _end_of(file)
    except OSError as error:
        raise AbsentError(f"the log {file} cannot be read: {error.strerror}") from None
    begins = list(_BEGIN.finditer(text))
    cuts = [0, *(found.start() for found in begins), len(text)]
    parts = [text[start:end] for start, end in pairwise(cuts)]
    names = ["an earlier start", *(f"start {found[1].decode()}" for found in begins)]
    found = [
        last_of(
            name,
            part.decode(errors="replace").removesuffix("\n").split("\n"),
            is_cut=not number and not is_whole,
        )
        for number, (name, part) in enumerate(zip(names, parts, strict=True))
        if part
    ]
    return found[:-3:-1]


def _end_of(file: Path) -> tuple[bytes, bool]:
    """Read enough of a file's end to contain two starts, within limits.

    Returns the text, and True if it is the whole file.
    """
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        most = MOST_BYTES
        while True:
            log.seek(max(0, size - most))
            text = log.read(most)
            if len(_BEGIN.findall(text)) > 1 or most >= min(size, _MOST_SEARCHED):
                return text, most >= size
            most *= 8
