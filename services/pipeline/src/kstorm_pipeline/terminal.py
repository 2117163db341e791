"""Makes output to a terminal safe: no record, name or error can move the cursor or reverse text.

Control characters are printed as JSON escapes, so JSON stays the same JSON. If the output is not a
terminal, it is for other programs and left unchanged. The services have the same in
`kstorm.printable`, which is not in the pipeline's image.
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
    """Escape all characters that control a terminal, except tabs and line feeds."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Terminal:
    """Wraps a stream that leads to a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text in printable form."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Make everything printable that is written to a terminal within the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Terminal(each) if each.isatty() else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
