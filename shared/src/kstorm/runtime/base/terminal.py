"""Output of commands to a terminal. All of it passes through `kstorm.printable`, so printed data
cannot control the terminal.

Output to files and pipes is unchanged, and tables there are as wide as they need.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kstorm.printable import Terminal, guarded, printable

__all__ = ["Screen", "Terminal", "guarded"]

_WIDE: Final = 100_000
"""More columns than any table needs."""


class Screen(Console):
    """A rich console that makes all printed data printable. Only the console itself adds colours
    and cursor movements."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "width" not in options and not os.environ.get("COLUMNS"):
            self.width = _WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        # Tables use this method to measure their cells.
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        # All output passes through this method.
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
