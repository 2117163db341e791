"""Shows progress: a changing line on a terminal, otherwise a line every few seconds."""

import time
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

_LINE_SECS: Final = 5.0


class Progress:
    """Shows temporary messages with `status`. `say` replaces them by a permanent one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._started = time.monotonic()
        self._next_line = 0.0

    def status(self, text: str) -> None:
        """Show the current step and its progress. Can be called often."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(Text(text))
        elif time.monotonic() >= self._next_line:
            self._line(text)

    def say(self, text: str) -> None:
        self.close()
        self._line(text)

    def close(self) -> None:
        """Remove the changing line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _line(self, text: str) -> None:
        self._next_line = time.monotonic() + _LINE_SECS
        line = Text(f"{time.monotonic() - self._started:6.1f} s  ", style="dim") + Text(
            text, style="not dim"
        )
        self._console.print(line, soft_wrap=True)
