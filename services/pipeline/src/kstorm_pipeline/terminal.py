"""What commands show at a terminal: nothing of a record, a name or an error moves the cursor or turns text around.

Every character that a terminal would obey is shown as JSON writes it, so JSON stays the same JSON. What is not a terminal is for
other programs, and gets each character as it is. The services have the same in `kstorm.printable`, which is not in the pipeline's
image.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with every character that a terminal would obey shown instead; tabs and line feeds stay."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Terminal:
    """A stream in place of one that leads to a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As a stream does; what it gets is printable."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """The same for several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """All that is printed meanwhile, to a terminal, is printable."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Terminal(each) if each.isatty() else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
