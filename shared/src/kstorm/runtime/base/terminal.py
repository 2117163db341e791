"""Output of commands to a terminal. All of it passes through `kstorm.printable`, so printed data
cannot control the terminal.

Output to files and pipes is unchanged, and tables there are as wide as they need.
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
"""More columns than any table needs."""


class Screen(Console):
    """A rich console that makes all printed data printable. Colours and cursor movements are its
    own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "width" not in options and not os.environ.get("COLUMNS"):
            self.width = _WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        # Tables measure their cells here.
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        # All output passes through here.
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class Terminal:
    """Replaces a stream that leads to a terminal. A `Screen` finds the terminal in it, because rich
    looks for this attribute."""

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
    """Make everything printable that is printed to a terminal meanwhile."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Terminal(each) if each.isatty() else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
