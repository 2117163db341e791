"""The last lines of a process's log, of its present life and of the one before: what a killed process said last is there.

The rule: not more is shown, or kept in memory, than a page can bear, however much a process says.
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
"""Of a life."""
_LONGEST_LINE: Final = 8_000
_MOST_SEARCHED: Final = 64_000_000
_BEGIN: Final = re.compile(rb"^--- \S+, start ([0-9]+): ", re.MULTILINE)
"""The line that `kstorm.local.processes` writes before each start."""


class Life(msgspec.Struct, frozen=True):
    """From one start to the next."""

    name: str
    """Which one."""
    lines: list[str]
    """The last ones."""
    is_cut: bool
    """Whether it said more before."""
    problem: str = ""
    """Why there are none; empty if there are."""


def last_of(name: str, lines: Iterable[str], *, is_cut: bool = False) -> Life:
    """The last of these lines. `is_cut`: whether others came before them."""
    kept: deque[str] = deque()
    size = 0
    for line in lines:
        short = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
        kept.append(short)
        size += len(short.encode(errors="replace")) + 1
        while len(kept) > MOST_LINES or size > MOST_BYTES:
            size -= len(kept.popleft().encode(errors="replace")) + 1
            is_cut = True
    return Life(name, list(kept), is_cut)


def lives_in(file: Path) -> list[Life]:
    """Of a process of this machine, the newest first. Raises `AbsentError` if there is no log."""
    try:
        text, is_whole = _end_of(file)
    except OSError as error:
        raise AbsentError(f"the log {file} cannot be read: {error.strerror}") from None
    begins = list(_BEGIN.finditer(text))
    cuts = [0, *(found.start() for found in begins), len(text)]
    parts = [text[start:end] for start, end in pairwise(cuts)]
    names = ["an older start", *(f"start {found[1].decode()}" for found in begins)]
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
    """So much of the end of a file that two lives begin in it, if it does not take too much; and whether that is all of it."""
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        most = MOST_BYTES
        while True:
            log.seek(max(0, size - most))
            text = log.read(most)
            if len(_BEGIN.findall(text)) > 1 or most >= min(size, _MOST_SEARCHED):
                return text, most >= size
            most *= 8
