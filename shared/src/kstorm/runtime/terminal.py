"""What commands show at a terminal obeys nobody but them: `kstorm.printable` for all that they print.

What is not a terminal is for other programs, and gets each character as it is, and tables as wide as they need.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kstorm.printable import printable

_WIDE: Final = 100_000
"""Columns that no table needs."""


class Screen(Console):
    """Shows texts of others as they may be shown; colours and cursor are its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "width" not in options and not os.environ.get("COLUMNS"):
            self.width = _WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        """Here a table measures its cells."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Everything comes through here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class Terminal:
    """A stream in place of one that leads to a terminal. A `Screen` finds that one in it, as rich does in its own."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """As a stream does; what it gets is printable."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """The same for several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """All that is printed meanwhile, to a terminal, is printable."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Terminal(each) if each.isatty() else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
