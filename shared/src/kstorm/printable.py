"""Make text from other sources safe to print on a terminal.

A record, an exception's message or a name may contain characters that control a terminal. They can
move the cursor, set the title, inject input, or reverse the reading order. Each such character is
escaped as in JSON, `\\u001b`, so that JSON text stays equivalent.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters (C0, C1) except tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that set the text direction
    "\u2028\u2029"  # line separators that few programs recognize
    "\ud800-\udfff]"  # surrogates, which cannot be encoded
)


def printable(text: str) -> str:
    """Escape every character that controls a terminal. Tabs and line feeds stay."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Terminal:
    """Replaces a stream that writes to a terminal. rich detects the terminal by the stream's
    attributes."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """During the block, escape everything that is printed to a terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Terminal(each) if each.isatty() else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
